"""Lab 13's figure: how long to wait before a worker counts as dead."""

from collections.abc import Mapping
from typing import Any

from check import CHUNKS, PERIOD, alive, answers, run
from matplotlib.figure import Figure

from inalab.testbed.draw.plots import COLOURS, new_figure, readable
from inalab.testbed.lab.aggregation import LANES
from inalab.testbed.lab.figures import beside
from inalab.testbed.lab.lab import Plot
from inalab.testbed.lab.network import losing
from inalab.testbed.lab.summing import tensors
from inalab.testbed.lab.workbench import Workbench

PATIENCE = (1.5, 2, 3, 4, 6, 8, 12)  # periods
DIES = 700.0  # microseconds
LOSS, WORKERS, PERIODS = 0.2, 8, 200


def recovered(bench: Workbench, patience: float) -> float:
    """Milliseconds from a worker's death until the others have the sum of theirs."""
    network = run(bench, tensors(4, CHUNKS * LANES), {3: [DIES]}, patience=patience * PERIOD)
    return (max(network.finished[f"h{worker}"] for worker in range(3)) - DIES) / 1000


def put_out(bench: Workbench, patience: float) -> int:
    """How many living workers are put out of the group, where signs of life are lost."""
    said = [one for worker in range(WORKERS) for one in alive(worker, 100 + 20 * worker, PERIODS * PERIOD, 1)]
    sent = answers(bench, said, PERIODS * PERIOD, WORKERS, patience * PERIOD, losing(LOSS, seed=1))
    return WORKERS - min(one.values[0].bit_count() for _, one in sent if one.kind == 3)


def measure(bench: Workbench) -> dict[str, Any]:
    return {
        "recovered": [recovered(bench, patience) for patience in PATIENCE],
        "put_out": [put_out(bench, patience) for patience in PATIENCE],
    }


def draw(yours: Mapping[str, Any], reference: Mapping[str, Any]) -> Figure:
    figure, (left, right) = new_figure(columns=2, size=(10.0, 4.2))
    beside(left, PATIENCE, yours["recovered"], reference["recovered"], COLOURS[0], "one of four dies")
    least = [patience * PERIOD / 1000 for patience in PATIENCE]
    left.plot(PATIENCE, least, color="black", linewidth=0.8, linestyle=":", label="the patience itself")
    left.set(ylabel="from the death to the others' sum (ms)", ylim=(0, None))
    beside(right, PATIENCE, yours["put_out"], reference["put_out"], COLOURS[2], f"{LOSS:.0%} of the packets are lost")
    right.set(ylabel=f"living workers put out, of {WORKERS}", ylim=(-0.3, WORKERS + 0.5))
    for ax in (left, right):
        ax.set(xscale="log", xlabel="patience (periods)", xticks=PATIENCE)
        readable(ax.xaxis)
        ax.minorticks_off()
        ax.legend(frameon=False)
    figure.suptitle("Patience: what a death costs, and what a hasty verdict costs")
    return figure


plot = Plot(measure, draw)
