"""Lab 12's figure: what a worker's link carries, and what the worker keeps, against the number of workers."""

from collections.abc import Mapping
from typing import Any

from check import Task, run
from matplotlib.figure import Figure

from inalab.testbed.draw.plots import COLOURS, new_figure, readable
from inalab.testbed.lab.aggregation import LANES
from inalab.testbed.lab.figures import beside
from inalab.testbed.lab.lab import Plot
from inalab.testbed.lab.workbench import Workbench

WORKERS = (1, 2, 4, 8)
CHUNKS, DEPTH = 32, 3  # chunks of a layer, and layers
MODEL = CHUNKS * DEPTH * LANES  # parameters


def measure(bench: Workbench) -> dict[str, Any]:
    """Kilobytes of a step on a worker's link, each way."""
    networks = [run(bench, Task(workers, CHUNKS // workers, DEPTH, steps=1)) for workers in WORKERS]
    return {
        "up": [network.bytes_between("h1", "s1") / 1000 for network in networks],
        "down": [network.bytes_between("s1", "h1") / 1000 for network in networks],
    }


def draw(yours: Mapping[str, Any], reference: Mapping[str, Any]) -> Figure:
    figure, (left, right) = new_figure(columns=2, size=(10.0, 4.2))
    beside(left, WORKERS, yours["up"], reference["up"], COLOURS[0], "up")
    beside(left, WORKERS, yours["down"], reference["down"], COLOURS[2], "down")
    whole = CHUNKS * DEPTH * (24 + 4 * LANES) / 1000
    left.axhline(whole, color="black", linewidth=0.8, linestyle=":", label="whole gradients, each way (computed)")
    left.set(ylabel="kilobytes of a step on a worker's link", ylim=(0, 30))
    right.plot(WORKERS, [2 * MODEL for _ in WORKERS], "k:", linewidth=0.8, label="everything")
    right.plot(
        WORKERS, [2 * MODEL / n + MODEL / DEPTH for n in WORKERS], color=COLOURS[0], marker="o", label="shards and one layer"
    )
    right.plot(WORKERS, [2 * MODEL / n for n in WORKERS], color=COLOURS[2], marker="s", label="shards alone")
    right.set(ylabel="numbers that a worker keeps (computed)", ylim=(0, None))
    for ax in (left, right):
        ax.set(xscale="log", xlabel="workers", xticks=WORKERS)
        readable(ax.xaxis)
        ax.minorticks_off()
        ax.legend(frameon=False, loc="upper right", fontsize=8)
    figure.suptitle(f"{DEPTH} layers, {MODEL} parameters: shards need less memory, and the links carry layers twice")
    return figure


plot = Plot(measure, draw)
