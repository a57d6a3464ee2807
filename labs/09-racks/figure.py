"""Lab 9's figure: what a rack's uplink carries."""

from collections.abc import Mapping
from typing import Any

from check import run
from matplotlib.figure import Figure

from inalab.testbed.draw.plots import COLOURS, new_figure
from inalab.testbed.lab.aggregation import LANES
from inalab.testbed.lab.figures import beside
from inalab.testbed.lab.lab import Plot
from inalab.testbed.lab.network import losing
from inalab.testbed.lab.summing import FRAME, tensors
from inalab.testbed.lab.workbench import Workbench

CHUNKS = 60
WORKERS = (1, 2, 3, 4, 6, 8)
LOSS = 0.02


def uplink(bench: Workbench, workers: int, loss: float) -> float:
    """Kilobytes that the first rack's switch sends to the root."""
    network = run(bench, 2, workers, tensors(2 * workers, CHUNKS * LANES), losing(loss, seed=2) if loss else None)
    return network.bytes_between("r1", "root") / 1000


def measure(bench: Workbench) -> dict[str, Any]:
    return {
        "without": [uplink(bench, workers, 0.0) for workers in WORKERS],
        "with": [uplink(bench, workers, LOSS) for workers in WORKERS],
    }


def draw(yours: Mapping[str, Any], reference: Mapping[str, Any]) -> Figure:
    figure, (ax,) = new_figure(size=(7.0, 4.2))
    beside(ax, WORKERS, yours["without"], reference["without"], COLOURS[0], "no loss")
    beside(ax, WORKERS, yours["with"], reference["with"], COLOURS[2], f"{LOSS:.0%} loss on every link")
    forwarded = [workers * CHUNKS * FRAME / 1000 for workers in WORKERS]
    ax.plot(WORKERS, forwarded, color="black", linewidth=0.8, linestyle=":", label="racks that only forward, no loss (computed)")
    ax.set(xlabel="workers in a rack", ylabel="kilobytes on a rack's uplink", ylim=(0, None), xticks=WORKERS)
    ax.set_title(f"{CHUNKS} chunks: a rack that adds sends one tensor up")
    ax.legend(frameon=False)
    return figure


plot = Plot(measure, draw)
