"""The control plane of p4/include/ecn.p4: from which depth of a port's queue on packets are marked."""

from __future__ import annotations

from .control import Control
from .sizes import MAX_PORTS

SHALLOW, DEEP = 5, 200  # packets, of 1 kB: what the paper's switches have
CHANCE = 0.01  # of a mark, just before all are marked


def marking(port: int, rate: float, packet: int, depth: int | None = None) -> list[str]:
    """For a link of so many Mbit/s, and packets of so many bytes. `depth`: packets that its queue holds, where that is set."""
    none, all_marked = SHALLOW * packet, DEEP * packet
    if depth:
        none, all_marked = min(none, depth * packet // 4), min(all_marked, depth * packet // 2)
    its = {
        "rate": round(rate / 8 * 2**16),
        "shallow": none,
        "deep": all_marked,
        "slope": round(CHANCE * 2**32 / (all_marked - none)),
    }
    return [f"register_write ecn.{name} {port} {value}" for name, value in its.items()]


def marked(control: Control) -> int:
    """Packets that the switch has marked."""
    return sum(control.counter("ecn.marked", port) for port in range(MAX_PORTS))
