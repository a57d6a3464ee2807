"""Plots over the steps of a run's trials. Everything drawn comes from trials.jsonl; invalid trials are dashed and marked so."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter
from numpy.typing import NDArray

from inalab.testbed.record import steps
from inalab.testbed.record.metrics import number
from inalab.testbed.record.runs import ResultsError, Run
from inalab.testbed.theory import bounds

COLOURS = ("#3b6ea8", "#4f9d69", "#d1762d", "#b0413e", "#7d5ba6", "#6b6b6b", "#2a9d9d", "#c9a227")
MARKERS = "osD^vP*X"
SIZE = (9.0, 3.6)


def new_figure(columns: int = 1, rows: int = 1, size: tuple[float, float] = SIZE, **options: Any) -> tuple[Figure, list[Axes]]:
    """A figure and its axes in reading order, without pyplot's global state."""
    figure = Figure(figsize=size, layout="constrained")
    axes = np.atleast_1d(np.asarray(figure.subplots(rows, columns, **options))).reshape(-1)
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", color="#e4e4e4", linewidth=0.7)
        ax.set_axisbelow(True)
    return figure, list(axes)


def saved(name: str, figure: Figure, kind: str, **options: Any) -> bytes:
    """A figure's file, which is the same each time. ResultsError where it cannot be drawn, as with a label that only looks like
    mathematics."""
    file = io.BytesIO()
    dated: Any = {"metadata": {"Date": None}} if kind == "svg" else {}
    try:
        with rc_context({"svg.hashsalt": name}):
            figure.savefig(file, format=kind, **dated, **options)
    except Exception as error:
        raise ResultsError(f"the plot {name} cannot be drawn: {type(error).__name__}: {error}") from None
    return file.getvalue()


def readable(axis: Axis) -> None:
    """Plain numbers on a logarithmic axis, also between the powers of ten."""
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(2, 0.6)))


def style(run: Run, trial: dict[str, Any]) -> dict[str, Any]:
    """Colour, line and label of a trial, the same in every plot of the run."""
    i = run.trials.index(trial)
    label = trial["name"] if trial["valid"] else f"{trial['name']} (not valid)"
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": "-" if trial["valid"] else "--", "label": label}


def by_step(trial: dict[str, Any], value: Callable[[list[dict[str, Any]]], float]) -> NDArray[np.float64]:
    """One number a step, from the records of all workers."""
    return np.array([value(group) for group in steps.groups(trial["steps"])])


def _smoothed(values: NDArray[np.float64], width: int = 5) -> NDArray[np.float64]:
    """A running median."""
    padded = np.pad(values, width // 2, mode="edge")
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, width), axis=1)


def learning_curves(run: Run) -> Figure:
    """Training loss (mean over workers, running median of 5 steps) and test accuracy, by steps and by seconds."""
    figure, (loss_steps, loss_time, accuracy_steps, accuracy_time) = new_figure(2, 2, (9.0, 6.2))
    for place, trial in enumerate(run.finished):
        look = style(run, trial)
        losses = _smoothed(by_step(trial, lambda g: float(np.mean([number(r["train_loss"]) for r in g]))))
        ended = by_step(trial, lambda g: max(r["ended"] for r in g))
        evaluated = [r for r in trial["steps"] if "accuracy" in r]
        at = [r["step"] + 1 for r in evaluated]
        accuracy = [100 * r["accuracy"] for r in evaluated]
        wide = (
            {**look, "linewidth": 1.2 + 1.1 * (len(run.finished) - place)} if trial["valid"] else look
        )  # equal curves stay visible
        loss_steps.plot(np.arange(1, len(losses) + 1), losses, **wide)
        loss_time.plot(ended, losses, **look)
        accuracy_steps.plot(at, accuracy, **wide)
        accuracy_time.plot([r["ended"] for r in evaluated], accuracy, marker=MARKERS[place % len(MARKERS)], markersize=3, **look)
    for ax in (loss_steps, loss_time):
        ax.set_ylabel("training loss (nats)")
        ax.set_yscale("log")
    for ax in (accuracy_steps, accuracy_time):
        ax.set_ylabel("test accuracy (%)")
    for ax in (loss_steps, accuracy_steps):
        ax.set_xlabel("steps")
    for ax in (loss_time, accuracy_time):
        ax.set_xlabel("seconds")
    figure.suptitle("Equal by steps, unequal in time", fontsize=11)
    figure.legend(*accuracy_time.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure


def aggregation_time(run: Run) -> Figure:
    """TAT of each step, from when the last worker came to it until the last one had the sum, over steps and as a distribution."""
    figure, (series, spread) = new_figure(2, size=SIZE, width_ratios=(2, 1), sharey=True)
    samples, labels = [], []
    for trial in run.finished:
        tat = 1000 * np.array([steps.aggregation_time(group) for group in steps.exchanges(trial["steps"])])
        look = style(run, trial)
        series.plot(np.arange(1, len(tat) + 1), tat, linewidth=1.1, **look)
        samples.append(np.sort(tat))
        labels.append(look)
    for values, look in zip(samples, labels, strict=True):
        spread.plot(100 * np.arange(1, len(values) + 1) / len(values), values, **{**look, "label": None})
    if run.finished:
        bound = 1000 * bounds.of_trial(run.finished[0])
        for ax in (series, spread) if np.isfinite(bound) else ():
            ax.axhline(bound, color="black", linewidth=1, linestyle=":", label="line-rate bound" if ax is series else None)
    series.set_yscale("log")
    for axis in (series.yaxis, spread.yaxis):
        readable(axis)
    series.set_xlabel("step")
    series.set_ylabel("TAT (ms), logarithmic")
    spread.set_xlabel("percentile of steps")
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def retransmissions(run: Run) -> Figure:
    """Cumulated over steps, and per thousand packets sent."""
    figure, (series, bars) = new_figure(2, size=SIZE, width_ratios=(2, 1))
    for i, trial in enumerate(run.finished):
        look = style(run, trial)
        total = by_step(trial, lambda g: float(sum(r["retransmissions"] for r in g)))
        series.plot(np.arange(1, len(total) + 1), total, **look)
        m = trial["metrics"]
        share = 1000 * m["retransmissions"] / max(m["packets_sent"], 1)
        bars.barh(i, share, color=look["color"], hatch=None if trial["valid"] else "//")
        bars.annotate(f" {share:.1f}", (share, i), va="center", fontsize=8)
    series.set_xlabel("step")
    series.set_ylabel("retransmissions so far")
    bars.set_yticks([])
    bars.invert_yaxis()
    bars.margins(x=0.2)
    bars.set_xlabel("per 1000 packets sent")
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def step_time(run: Run) -> Figure:
    """For each worker the median of a step's compute, and of what it waits for its sums, for other workers included."""
    shown = run.finished
    figure, axes = new_figure(max(len(shown), 1), size=(max(9.0, 2.1 * len(shown)), 3.4), sharey=True)
    for ax, trial in zip(axes, shown, strict=False):
        ranks = sorted({r["rank"] for r in trial["steps"]})
        by_rank = [steps.by_job([r for r in trial["steps"] if r["rank"] == k]) for k in ranks]
        compute = [1000 * np.median([steps.busy(r) for own in jobs for r in own]) for jobs in by_rank]
        waiting = [1000 * np.median([seconds for own in jobs for seconds in steps.exposed(own)]) for jobs in by_rank]
        ax.bar(ranks, compute, color="#9db7d5", label="compute (virtual)")
        ax.bar(ranks, waiting, bottom=compute, color="#3b6ea8", label="all-reduce beyond that, waiting included")
        ax.set_title(trial["name"] + ("" if trial["valid"] else "\n(not valid)"), fontsize=9)
        ax.set_xticks(ranks)
        ax.set_xlabel("worker")
        ax.tick_params(labelsize=7)
    axes[0].set_ylabel("median per step (ms)")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    return figure
