"""Lab 11's figure: what long messages save, and what they cost where packets are lost."""

from collections.abc import Mapping
from typing import Any

from check import PACKETS, bound, run
from matplotlib.figure import Figure

from inalab.testbed.draw.plots import COLOURS, new_figure
from inalab.testbed.lab.figures import beside
from inalab.testbed.lab.lab import Plot
from inalab.testbed.lab.network import losing
from inalab.testbed.lab.summing import tensors
from inalab.testbed.lab.workbench import Workbench

ENTRIES = 48  # of each half of the pool
MESSAGES = (1, 4, 16)  # packets
LOSS = (0.0, 0.005, 0.01, 0.02, 0.03)


def measure(bench: Workbench) -> dict[str, Any]:
    """For messages of so many packets and each loss: times the bound, and the packets that two workers send for each of theirs."""
    parts = tensors(2, 64 * PACKETS)
    times: dict[str, list[float]] = {}
    sent: dict[str, list[float]] = {}
    for packets in MESSAGES:
        runs = [run(bench, parts, packets, ENTRIES // packets, losing(loss, seed=2) if loss else None) for loss in LOSS]
        times[str(packets)] = [network.now / bound() for network in runs]
        sent[str(packets)] = [sum(network.directions[host, 0].packets for host in ("h1", "h2")) / 2 / PACKETS for network in runs]
    return {"times": times, "sent": sent}


def draw(yours: Mapping[str, Any], reference: Mapping[str, Any]) -> Figure:
    figure, axes = new_figure(columns=2, size=(10.0, 4.2))
    percent = [100 * loss for loss in LOSS]
    for ax, what, label in zip(
        axes, ("times", "sent"), ("aggregation time / bound", "packets sent for each of the tensor"), strict=True
    ):
        for packets, colour in zip(MESSAGES, COLOURS, strict=False):
            name = f"messages of {packets} packets" if packets > 1 else "messages of one packet"
            beside(ax, percent, yours[what][str(packets)], reference[what][str(packets)], colour, name)
        ax.set(xlabel="packets lost on each link (%)", ylabel=label, ylim=(0, None))
    axes[0].legend(frameon=False, fontsize=8)
    figure.suptitle("One lost packet costs its whole message")
    return figure


plot = Plot(measure, draw)
