"""Lab 7's figure: goodput against spare hosts."""

from collections.abc import Mapping
from typing import Any

from check import LINK, optimum, run, tensors
from matplotlib.figure import Figure

from inalab.testbed.draw.plots import COLOURS, new_figure
from inalab.testbed.lab.figures import beside
from inalab.testbed.lab.lab import Plot
from inalab.testbed.lab.network import Network
from inalab.testbed.lab.workbench import Workbench

WORKERS, LENGTH = 4, 56_000
SPARES = (0, 1, 2, 3, 4)


def goodput(network: Network) -> float:
    """Mbit/s of tensor that each worker gets summed."""
    return rate_of(max(network.finished[f"h{n}"] for n in range(WORKERS)))


def rate_of(microseconds: float) -> float:
    return 8 * 4 * LENGTH / microseconds


def measure(bench: Workbench) -> dict[str, Any]:
    parts = tensors(WORKERS, LENGTH)
    return {
        "split": [goodput(run(bench, parts, "SplitWorker", "SplitServer", k, spares=k)) for k in SPARES],
        "ring": goodput(run(bench, parts, "RingWorker")),
        "server": goodput(run(bench, parts, "ServerWorker", "Server", 1)),
    }


def draw(yours: Mapping[str, Any], reference: Mapping[str, Any]) -> Figure:
    figure, (ax,) = new_figure(size=(7.0, 4.2))
    beside(ax, SPARES, yours["split"], reference["split"], COLOURS[0], "BytePS's split")
    for name, colour, label in (("ring", COLOURS[1], "ring, no spare host"), ("server", COLOURS[2], "one parameter server")):
        ax.plot([0 if name == "ring" else 1], [yours[name]], marker="D", linestyle="", color=colour, label=f"{label}, yours")
    ax.plot(
        SPARES, [rate_of(optimum(WORKERS, k, LENGTH)) for k in SPARES], color="black", linewidth=0.8, linestyle=":", label="optimum"
    )
    ax.set(xlabel="spare hosts", ylabel="goodput (Mbit/s)", ylim=(0, LINK.rate), xticks=SPARES)
    ax.set_title(f"{WORKERS} workers at {LINK.rate:g} Mbit/s: hosts that only add make the others' links lighter")
    ax.legend(frameon=False, loc="lower right")
    return figure


plot = Plot(measure, draw)
