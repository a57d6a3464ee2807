"""Packets in bins of 10 ms through the second after a burst of losses, and the window (SwitchML's packets-over-time figure).

Worker 0's link loses everything for a while, in both directions. What is lost is retransmitted after a timeout; the others
wait, for their chunks cannot be completed without worker 0; then all go on where they were.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from pydantic import Field

from inalab.hosts.stream.timeline import BIN
from inalab.hosts.switchml import wire
from inalab.testbed.draw.curves import by_name, not_valid, words
from inalab.testbed.draw.plots import COLOURS, WIDTH, named, new_figure
from inalab.testbed.measures import metric
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError
from inalab.testbed.plan.sweep import Numbers, Point, SweepSettings, paired
from inalab.testbed.record.runs import Run
from inalab.testbed.record.statistics import median_interval

BEFORE, AFTER = 0.2, 1.0  # seconds around the outage's beginning that are shown
SERIES = ("first transmissions", "retransmissions", "results", "outstanding")


class Settings(SweepSettings):
    """One rack of four, and one long all-reduce that the outage falls into."""

    outages: Numbers = Field((20.0, 50.0, 100.0), description="lengths of the outage, in ms")
    racks: int = 1
    slots: int = 32
    k: int = 256
    workload: str = "tensor-500000"
    steps: int = 2
    cut_at: float = Field(0.5, ge=0, description="seconds into the training at which worker 0's link goes down")
    timeline: bool = True


QUICK: dict[str, Any] = {"outages": (50.0,), "seeds": 1}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Each length of the outage. SettingsError for fewer than two workers, for one is to wait for the other."""
    if settings.workers < 2:
        raise SettingsError(f"workers is {settings.workers}: the timeline shows a worker that is cut off and one that is not")
    begins = settings.cut_at
    points = [
        Point(f"{ms:g} ms", {"outage": ms}, {"faults": f"down h0 at {begins:g} for {ms / 1000:g}"}) for ms in settings.outages
    ]
    return paired(points, settings, seed)


def _bins(trial: dict[str, Any], rank: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(seconds since the outage began, packets by SERIES) of a worker's bins."""
    begun = trial["metrics"]["faults"][0]["begun"]
    noted = {round((when - begun) / BIN): counts for when, *counts in trial["workers"][rank]["timeline"]}
    span = range(round(-BEFORE / BIN), round(AFTER / BIN))
    counts = np.array([noted.get(i, [0, 0, 0, np.nan]) for i in span], dtype=float)
    known = np.maximum.accumulate(np.where(np.isnan(counts[:, 3]), 0, np.arange(len(counts))))
    counts[:, 3] = np.nan_to_num(counts[known, 3])  # the window stays as it was where nothing happened
    return np.array(span) * BIN, counts


def _back(trial: dict[str, Any]) -> float:
    """Seconds from the outage's beginning until worker 1 has results again, after its longest time without.

    Infinite if that is not within AFTER; 0 if no bin was without results.
    """
    at, counts = _bins(trial, 1)
    silent, longest, run = 0, 0, 0
    for i in np.flatnonzero(at >= -BIN):
        run = run + 1 if counts[i, 2] == 0 else 0
        if run > longest:
            longest, silent = run, int(i)
        if counts[i, 2] and longest * BIN >= trial["factors"]["outage"] / 2000:
            break
    if not longest:
        return 0.0
    return float(at[silent + 1]) if silent + 1 < len(at) else float("inf")


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """For the first seed of each outage: packets of the worker that is cut off and of another, and their windows."""
    lengths = list(dict.fromkeys(t["factors"]["outage"] for t in run.finished))
    shown = [next(t for t in run.finished if t["factors"]["outage"] == ms) for ms in lengths]
    figure, axes = new_figure(max(len(shown), 1), 3, (WIDTH, 6.0), sharex=True, sharey="row")
    grid = np.array(axes).reshape(3, -1)
    for column, trial in enumerate(shown):
        begun, ended = (trial["metrics"]["faults"][0][name] for name in ("begun", "ended"))
        full = trial["settings"]["host_rate"] * 1e6 * BIN / wire.bits_on_wire(trial["settings"]["k"])
        for row, rank in enumerate((0, 1)):
            ax = grid[row, column]
            at, counts = _bins(trial, rank)
            for series, colour, width in ((2, COLOURS[1], 2.4), (0, COLOURS[0], 0.8), (1, COLOURS[2], 1.4)):
                ax.plot(1000 * at, counts[:, series], drawstyle="steps-post", color=colour, linewidth=width, label=SERIES[series])
            ax.axhline(full, color="black", linestyle=":", linewidth=1, label="line rate")
            grid[2, column].plot(1000 * at, counts[:, 3], drawstyle="steps-post", color=COLOURS[2 * row], label=f"worker {rank}")
        for ax in grid[:, column]:
            ax.axvspan(0, 1000 * (ended - begun), color="#f3d9d6", zorder=0)
        note = "" if trial["valid"] else " (not valid)"
        grid[0, column].set_title(f"outage of {1000 * (ended - begun):.0f} ms{note}")
        grid[2, column].set_xlabel("ms since the outage began")
    for row, name in enumerate(
        ("worker 0, cut off:\npackets per 10 ms", "worker 1:\npackets per 10 ms", "window:\nslots outstanding")
    ):
        grid[row, 0].set_ylabel(name)
    grid[2, 0].set_ylim(bottom=0)
    named(figure, (grid[0, 0], grid[2, 0]))
    caption = (
        "Packets sent and results received in bins of 10 ms, and the slots that wait at their ends, around an outage of "
        f"worker 0's link (shaded). One seed of {run.record['settings']['seeds']}; trials.jsonl has all."
    )
    yield "timeline", caption, figure


def findings(run: Run) -> list[str]:
    """How long results stay away, and what is retransmitted."""
    sentences = not_valid(run)
    for name, measured in by_name(run).items():
        here = [t for t in measured if t["valid"]]
        again = median_interval([metric("retransmissions")(t) for t in here])
        times = [1000 * back for t in here if np.isfinite(back := _back(t))]
        sentences.append(
            f"Outage of {name}: worker 1 has results again {words(median_interval(times), '.0f')} ms after its beginning, in "
            f"{len(times)} of {len(here)} trials within the second; {words(again, '.0f')} retransmissions by all workers together."
        )
    return sentences
