"""Plots over the steps of a run's trials. Everything drawn comes from trials.jsonl; invalid trials are dashed and marked so."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_rgb
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator
from numpy.typing import NDArray

from inalab.testbed.record import steps
from inalab.testbed.record.metrics import number
from inalab.testbed.record.runs import ResultsError, Run
from inalab.testbed.theory import bounds

# For what is no scheme: settings, sizes, trials. None is near a scheme's colour; neighbours differ in lightness, as in grey.
COLOURS = ("#1a1a2e", "#8ecae6", "#5e2b97", "#a4d65e", "#0f4c3a", "#f4a6c0", "#660033", "#bdbdbd")
MARKERS = "osD^vP*X"
WIDTH, HEIGHT = 7.0, 2.7  # inches: of a page's text, so that fonts keep their sizes in print; of a row of panels
SMALLEST = 8.0  # points
MOST_NAMED = 6  # series whose names stand at their ends
LONGEST_NAME = 28  # characters of such a name, which takes its panel's room
FONTS: Any = {
    "font.size": 8.5, "axes.titlesize": 8.5, "axes.labelsize": 8.5, "xtick.labelsize": SMALLEST, "ytick.labelsize": SMALLEST,
    "legend.fontsize": SMALLEST, "legend.frameon": False, "pdf.fonttype": 42,
}  # fmt: skip


@contextmanager
def styled() -> Iterator[None]:
    """Plots drawn within have the project's fonts. Other plots do not change, such as a notebook's own."""
    with rc_context(FONTS):
        yield


class Plot(Figure):
    """A figure that a notebook shows as the report does, whether pyplot has been imported there or not."""

    def _repr_png_(self) -> bytes:
        return saved("figure", self, "png")


def new_figure(
    columns: int = 1, rows: int = 1, size: tuple[float, float] | None = None, **options: Any
) -> tuple[Figure, list[Axes]]:  # fmt: skip
    """A figure as wide as a page's text and its axes in reading order, without pyplot's global state."""
    figure = Plot(figsize=size or (WIDTH, HEIGHT * rows + 0.3), layout="constrained")
    axes = np.atleast_1d(np.asarray(figure.subplots(rows, columns, **options))).reshape(-1)
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", color="#e4e4e4", linewidth=0.7)
        ax.set_axisbelow(True)
        ax.tick_params(labelsize=SMALLEST)
    return figure, list(axes)


def named(figure: Figure, axes: Iterable[Axes]) -> None:
    """The names of the series in these axes: at the ends of the last axes' lines if they are few and all there, or else below."""
    axes = list(axes)
    found: dict[str, Any] = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    ends = {label: line for label, handle in found.items() if (line := _line_of(handle)) is not None}
    last = set(axes[-1].get_legend_handles_labels()[1]) if axes else set()
    short = max(map(len, found), default=0) <= LONGEST_NAME
    if found and short and len(found) <= MOST_NAMED and set(found) == set(ends) == last:
        _name_ends(figure, axes[-1], ends)
    elif found:
        for legend in list(figure.legends):  # two in the same place would lie on each other
            found = dict(zip((text.get_text() for text in legend.get_texts()), legend.legend_handles, strict=True)) | found
            legend.remove()
        columns = min(len(found), 4 if max(map(len, found)) < 28 else 2)
        figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=columns)


def _line_of(handle: Any) -> Line2D | None:
    """The line of a series; None if it has no line, or no finite point on it."""
    line = handle[0] if isinstance(handle, ErrorbarContainer) else handle
    return line if isinstance(line, Line2D) and len(_points(line)) else None


def _points(line: Line2D) -> NDArray[np.float64]:
    """The finite points of a line."""
    points = np.asarray(line.get_xydata(), np.float64)
    return points[np.isfinite(points).all(axis=1)]


def _name_ends(figure: Figure, ax: Axes, lines: dict[str, Line2D]) -> None:
    """Each name beside the last point of its line, moved up or down where names would overlap."""
    ax.get_xlim(), ax.get_ylim()  # autoscales, which transforms do not
    to_axes = ax.transAxes.inverted()
    ends = {}
    for label, line in lines.items():
        last = _points(line)[-1]
        ends[label] = np.clip(to_axes.transform(line.get_transform().transform(last)), 0, 1)
    gap = 1.25 * SMALLEST / (72 * figure.get_figheight() * ax.get_position().height)
    places = _apart([float(y) for _, y in ends.values()], gap)
    for (label, line), place in zip(lines.items(), places, strict=True):
        ax.annotate(
            label, xy=tuple(ends[label]), xycoords="axes fraction", xytext=(1.04, place), textcoords="axes fraction", va="center",
            color=_dark(line.get_color()), annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": line.get_color(), "linewidth": 0.6, "shrinkA": 1, "shrinkB": 2},
        )  # fmt: skip


def _apart(places: list[float], gap: float) -> list[float]:
    """Places in the same order, near where they were and no two nearer to each other than the gap."""
    if not places:
        return []
    order = np.argsort(places, kind="stable")
    least = np.array(places)[order] - gap * np.arange(len(places))
    # the nearest sequence that never falls, by merging neighbours that do (pool adjacent violators)
    blocks: list[list[float]] = []
    for value in least:
        blocks.append([float(value)])
        while len(blocks) > 1 and np.mean(blocks[-2]) > np.mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    moved = np.concatenate([np.full(len(block), np.mean(block)) for block in blocks]) + gap * np.arange(len(places))
    found = np.empty(len(places))
    found[order] = moved
    return [float(place) for place in found]


def _dark(colour: Any) -> tuple[float, float, float]:
    """The colour, dark enough for text on white."""
    red, green, blue = to_rgb(colour)
    darker = min(1.0, 0.45 / max(0.3 * red + 0.59 * green + 0.11 * blue, 1e-6))
    return red * darker, green * darker, blue * darker


def saved(name: str, figure: Figure, kind: str, **options: Any) -> bytes:
    """A figure's file, which is the same each time. ResultsError where it cannot be drawn, as with a label that only looks like
    mathematics."""
    file = io.BytesIO()
    dated: Any = {"metadata": {"Date": None}} if kind == "svg" else {"metadata": {"CreationDate": None}} if kind == "pdf" else {}
    try:
        with rc_context(FONTS | {"svg.hashsalt": name}):
            figure.savefig(file, format=kind, **dated, **options)
    except Exception as error:
        raise ResultsError(f"the plot {name} cannot be drawn: {type(error).__name__}: {error}") from None
    return file.getvalue()


def readable(axis: Axis) -> None:
    """Plain numbers on a logarithmic axis: 0.2, 1, 50; between the powers of ten where they alone would be too few.

    Ticks that were set stay.
    """
    low, high = sorted(axis.get_view_interval())
    decades = np.log10(high / low) if low > 0 else 9.0
    if not isinstance(axis.get_major_locator(), FixedLocator):
        few = MaxNLocator(6, steps=[1, 2, 5, 10]) if decades < 0.7 else LogLocator(subs=(1.0, 2.0, 5.0) if decades < 3 else (1.0,))
        axis.set_major_locator(few)
        axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def style(run: Run, trial: dict[str, Any]) -> dict[str, Any]:
    """Colour, line and label of a trial, the same in every plot of the run."""
    i = run.trials.index(trial)
    label = trial["name"] if trial["valid"] else f"{trial['name']} (not valid)"
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": "-" if trial["valid"] else "--", "label": label}


def by_step(trial: dict[str, Any], value: Callable[[list[dict[str, Any]]], float]) -> NDArray[np.float64]:
    """One number per step, from the records of all workers."""
    return np.array([value(group) for group in steps.groups(trial["steps"])])


def mark_faults(ax: Axes, trial: dict[str, Any], colour: str, at: Callable[[float], float] = float) -> None:
    """A dotted line where each fault of a trial's schedule has begun, and a band until its end; `at` is where a second is drawn."""
    for fault in trial["metrics"].get("faults", ()):
        ax.axvline(at(fault["begun"]), color=colour, linestyle=":", linewidth=0.8, zorder=0)
        if "ended" in fault:
            ax.axvspan(at(fault["begun"]), at(fault["ended"]), color=colour, alpha=0.1, linewidth=0, zorder=0)


def _smoothed(values: NDArray[np.float64], width: int = 5) -> NDArray[np.float64]:
    """A running median."""
    padded = np.pad(values, width // 2, mode="edge")
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, width), axis=1)


def learning_curves(run: Run) -> Figure:
    """Training loss (mean over workers, running median of 5 steps) and test accuracy, by steps and by seconds."""
    figure, (loss_steps, loss_time, accuracy_steps, accuracy_time) = new_figure(2, 2)
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
        for ax in (loss_time, accuracy_time):
            mark_faults(ax, trial, look["color"])
        accuracy_steps.plot(at, accuracy, **wide)
        accuracy_time.plot([r["ended"] for r in evaluated], accuracy, marker=MARKERS[place % len(MARKERS)], markersize=3, **look)
    for ax in (loss_steps, loss_time):
        ax.set_ylabel("training loss (nats)")
        ax.set_yscale("log")
        readable(ax.yaxis)
    for ax in (accuracy_steps, accuracy_time):
        ax.set_ylabel("test accuracy (%)")
    for ax in (loss_steps, accuracy_steps):
        ax.set_xlabel("steps")
    for ax in (loss_time, accuracy_time):
        ax.set_xlabel("seconds")
    figure.suptitle("Equal by steps, unequal in time")
    figure.legend(*accuracy_time.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def aggregation_time(run: Run) -> Figure:
    """TAT of each step over the steps, and as a distribution."""
    figure, (series, spread) = new_figure(2, width_ratios=(2, 1), sharey=True)
    samples, labels = [], []
    for trial in run.finished:
        tat = 1000 * np.array([steps.aggregation_time(group) for group in steps.exchanges(trial["steps"])])
        look = style(run, trial)
        series.plot(np.arange(1, len(tat) + 1), tat, linewidth=1.1, **look)
        ends = [max(r["ended"] for r in group) for group in steps.exchanges(trial["steps"])]
        mark_faults(series, trial, look["color"], lambda seconds, ends=ends: float(np.searchsorted(ends, seconds)) + 1)  # type: ignore[misc]
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
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def retransmissions(run: Run) -> Figure:
    """Retransmissions: cumulative over steps, and per thousand packets sent."""
    figure, (series, bars) = new_figure(2, width_ratios=(2, 1))
    for i, trial in enumerate(run.finished):
        look = style(run, trial)
        total = by_step(trial, lambda g: float(sum(r["retransmissions"] for r in g)))
        series.plot(np.arange(1, len(total) + 1), total, **look)
        m = trial["metrics"]
        share = 1000 * m["retransmissions"] / max(m["packets_sent"], 1)
        bars.barh(i, share, color=look["color"], hatch=None if trial["valid"] else "//")
        bars.annotate(f" {share:.1f}", (share, i), va="center")
    series.set_xlabel("step")
    series.set_ylabel("retransmissions so far")
    bars.set_yticks([])
    bars.invert_yaxis()
    bars.margins(x=0.2)
    bars.set_xlabel("per 1000 packets sent")
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def step_time(run: Run) -> Figure:
    """For each worker the median of a step's compute, and of its wait for its sums, which includes waiting for other workers."""
    shown = run.finished
    figure, axes = new_figure(max(len(shown), 1), size=(max(WIDTH, 1.5 * len(shown)), HEIGHT), sharey=True)
    for ax, trial in zip(axes, shown, strict=False):
        ranks = sorted({r["rank"] for r in trial["steps"]})
        by_rank = [steps.by_job([r for r in trial["steps"] if r["rank"] == k]) for k in ranks]
        compute = [1000 * np.median([steps.busy(r) for own in jobs for r in own]) for jobs in by_rank]
        waiting = [1000 * np.median([seconds for own in jobs for seconds in steps.exposed(own)]) for jobs in by_rank]
        ax.bar(ranks, compute, color=COLOURS[1], label="compute (virtual)")
        ax.bar(ranks, waiting, bottom=compute, color=COLOURS[2], label="all-reduce beyond that, waiting included")
        ax.set_title(trial["name"] + ("" if trial["valid"] else "\n(not valid)"))
        ax.set_xticks(ranks)
        ax.set_xlabel("worker")
    axes[0].set_ylabel("median per step (ms)")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure
