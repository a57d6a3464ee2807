"""Lab 2's figure: how many of the packets that a link loses the switch misses."""

from collections.abc import Mapping
from typing import Any

from check import NUMBER, Probe, probe
from matplotlib.figure import Figure

from inalab.testbed.draw.plots import COLOURS, new_figure
from inalab.testbed.lab.figures import beside
from inalab.testbed.lab.lab import Plot
from inalab.testbed.lab.network import Network, Packet, losing
from inalab.testbed.lab.packets import parsed, wire
from inalab.testbed.lab.scripted import Source
from inalab.testbed.lab.workbench import Workbench

PACKETS = 400
LOSSES = (0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3)


def run(bench: Workbench, loss: float) -> tuple[int, int]:
    """Send numbered probes over a link that loses some; how many were lost on the way, and how many the answers miss.

    The last one always arrives: nobody can miss what nothing follows.
    """
    host = Source([(20.0 * n, wire(probe(NUMBER, 1, n))) for n in range(PACKETS)])
    drawn = losing(loss, seed=1)

    def lost(packet: Packet) -> bool:
        return packet.source == "h1" and drawn(packet) and packet.number < PACKETS - 1

    network = Network(loss=lost)
    network.star("s1", bench.switch(), {"h1": host})
    host.awaited = PACKETS
    network.run({}, quiet=True)
    return network.lost, sum(parsed(data)[Probe].value for _, data in host.arrived)


def measure(bench: Workbench) -> dict[str, Any]:
    pairs = [run(bench, loss) for loss in LOSSES]
    return {"lost": [lost for lost, _ in pairs], "missed": [missed for _, missed in pairs]}


def draw(yours: Mapping[str, Any], reference: Mapping[str, Any]) -> Figure:
    figure, (ax,) = new_figure(size=(7.0, 4.2))
    beside(ax, yours["lost"], yours["missed"], reference["missed"], COLOURS[0], "missed by the switch")
    most = max(reference["lost"])
    ax.plot([0, most], [0, most], color="black", linewidth=0.8, linestyle=":", label="as many as were lost")
    ax.set(
        xlabel=f"packets that the link lost, of {PACKETS}", ylabel="packets missed by the switch", ylim=(0, None),
        title="A register and a subtraction count what nobody saw",
    )  # fmt: skip
    ax.legend(frameon=False)
    return figure


plot = Plot(measure, draw)
