"""Lab 1's figure: how long a packet takes through a line of switches."""

from collections.abc import Mapping
from typing import Any

from check import H1, SWITCH, packet
from matplotlib.figure import Figure

from inalab.testbed.draw.plots import COLOURS, new_figure
from inalab.testbed.lab.figures import beside
from inalab.testbed.lab.lab import Failure, Plot
from inalab.testbed.lab.network import OVERHEAD, Link, Network
from inalab.testbed.lab.packets import wire
from inalab.testbed.lab.scripted import Source
from inalab.testbed.lab.workbench import Workbench

LINK = Link(rate=100.0, delay=5.0)
HOPS = range(1, 9)
PAYLOADS = (100, 1466)


def latency(bench: Workbench, switches: int, payload: int) -> float:
    """Microseconds from the first bit at the source to the last at the sink."""
    data = wire(packet("10.0.2.2", payload=bytes(payload)))
    source, sink = Source([(0.0, data)]), Source(awaited=1)
    network = Network(hosts={"h1": source, "h2": sink})
    for n in range(1, switches + 1):
        network.switches[f"s{n}"] = bench.switch([f"table_add routes forward 10.0.2.0/24 => 2 {SWITCH if n < switches else H1}"])
        network.join(*(("h1", 0) if n == 1 else (f"s{n - 1}", 2)), f"s{n}", 1, LINK)
    network.join(f"s{switches}", 2, "h2", 0, LINK)
    network.run({})
    if not sink.arrived:
        raise Failure("no packet arrives at the end of the line")
    return sink.arrived[0][0]


def formula(switches: int, payload: int) -> float:
    """Store and forward: each link takes the whole packet before the next gets a bit."""
    return (switches + 1) * (8 * (payload + 34 + OVERHEAD) / LINK.rate + LINK.delay)


def measure(bench: Workbench) -> dict[str, Any]:
    return {str(size): [latency(bench, n, size) for n in HOPS] for size in PAYLOADS}


def draw(yours: Mapping[str, Any], reference: Mapping[str, Any]) -> Figure:
    figure, (ax,) = new_figure(size=(7.0, 4.2))
    for size, colour in zip(PAYLOADS, COLOURS, strict=False):
        beside(ax, list(HOPS), yours[str(size)], reference[str(size)], colour, f"{size + 34} bytes")
        ax.plot(list(HOPS), [formula(n, size) for n in HOPS], color="black", linewidth=0.8, linestyle=":")
    ax.plot([], [], color="black", linewidth=0.8, linestyle=":", label="(switches + 1) × (serialization + delay)")
    ax.set(
        xlabel="switches on the way",
        ylabel="latency (µs)",
        ylim=(0, None),
        title="Store and forward: each hop costs a whole packet",
    )
    ax.legend(frameon=False)
    return figure


plot = Plot(measure, draw)
