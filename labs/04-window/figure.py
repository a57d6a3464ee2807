"""Lab 4's figure: aggregation time against the size of the pool, and Little's law."""

from collections.abc import Mapping
from typing import Any

from check import bound_of, started
from matplotlib.figure import Figure

from inalab.testbed.draw.plots import COLOURS, new_figure, readable
from inalab.testbed.lab.aggregation import LANES
from inalab.testbed.lab.figures import beside
from inalab.testbed.lab.lab import Plot
from inalab.testbed.lab.summing import ROUND_TRIP, WIRE_TIME, summed, tensors
from inalab.testbed.lab.workbench import Workbench

CHUNKS = 256
SLOTS = (1, 2, 4, 8, 16, 32, 64, 128)


def measure(bench: Workbench) -> dict[str, Any]:
    parts = tensors(2, CHUNKS * LANES)
    return {"tat": [summed(bench, started(bench, 2), parts, slots=slots).now for slots in SLOTS]}


def draw(yours: Mapping[str, Any], reference: Mapping[str, Any]) -> Figure:
    figure, (ax,) = new_figure(size=(7.0, 4.2))
    beside(ax, SLOTS, [t / 1000 for t in yours["tat"]], [t / 1000 for t in reference["tat"]], COLOURS[0], "time")
    ax.plot(
        SLOTS, [bound_of(CHUNKS, s) / 1000 for s in SLOTS], color="black", linewidth=0.8, linestyle=":",
        label="bound: the link's rate, and a chunk a slot and round trip",
    )  # fmt: skip
    ax.axvline(ROUND_TRIP / WIRE_TIME, color="#999999", linewidth=0.8, label="round trip × rate (Little's law)")
    ax.set(xscale="log", yscale="log", xlabel="slots", ylabel="aggregation time (ms)", xticks=SLOTS, yticks=(2, 5, 10, 20))
    ax.set_title(f"{CHUNKS} chunks, two workers: slots help until the link is full")
    readable(ax.xaxis)
    readable(ax.yaxis)
    ax.minorticks_off()
    ax.legend(edgecolor="none", framealpha=1.0)
    return figure


plot = Plot(measure, draw)
