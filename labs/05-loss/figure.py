"""Lab 5's figure: aggregation time against loss."""

from collections.abc import Mapping
from statistics import median
from typing import Any

from check import run
from matplotlib.figure import Figure

from inalab.testbed.draw.plots import COLOURS, new_figure, readable
from inalab.testbed.lab.figures import beside
from inalab.testbed.lab.lab import Plot
from inalab.testbed.lab.network import losing
from inalab.testbed.lab.workbench import Workbench

LOSSES = (0.001, 0.003, 0.01, 0.03, 0.1)
SEEDS = (1, 2, 3)
CHUNKS, SLOTS = 200, 16


def measure(bench: Workbench) -> dict[str, Any]:
    times = [[run(bench, CHUNKS, SLOTS, losing(loss, seed)).now for seed in SEEDS] for loss in LOSSES]
    return {"without": run(bench, CHUNKS, SLOTS, None).now, "with": times}


def draw(yours: Mapping[str, Any], reference: Mapping[str, Any]) -> Figure:
    figure, (ax,) = new_figure(size=(7.0, 4.2))
    percent = [100 * loss for loss in LOSSES]
    medians = [[median(times) / 1000 for times in of["with"]] for of in (yours, reference)]
    beside(ax, percent, *medians, COLOURS[0], "median of three seeds")
    for x, times in zip(percent, yours["with"], strict=True):
        ax.plot([x] * len(times), [t / 1000 for t in times], ".", color=COLOURS[0], markersize=4, alpha=0.5)
    ax.axhline(yours["without"] / 1000, color="black", linewidth=0.8, linestyle=":", label="yours, without loss")
    ax.set(xscale="log", yscale="log", xlabel="packets lost on each link (%)", ylabel="aggregation time (ms)", xticks=percent)
    ax.set_title(f"{CHUNKS} chunks, {SLOTS} slots: a loss costs a timeout, and never the sum")
    readable(ax.xaxis)
    readable(ax.yaxis)
    ax.legend(frameon=False)
    return figure


plot = Plot(measure, draw)
