"""What hosts and switches take, by whose they are: fitted on trials of a target, or of hardware, each with its origin.

`inalab simulate --calibrate` fits the embedded target's and writes them to costs.json.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

PATH = Path(__file__).parent / "costs.json"
NONE, DPDK = "none", "dpdk"  # links alone take time; hosts with DPDK
FORWARDED = 29.61e6  # packets a second that one core of a host with DPDK receives and sends, without loss
THROUGH = 8e-6  # seconds that a packet takes through such a host
HOP = 3e-4  # seconds from an emulated link to the next node, where links are token buckets: of 100 to 600 µs what suits kept runs


@dataclass(frozen=True)
class Costs:
    """Seconds that hosts, switches and links take. With none the links' rates alone take time."""

    host: float = 0.0  # for each packet that a host sends or receives
    batch: float = 0.0  # for each batch of packets that a host takes
    switch: float = 0.0  # for each packet that arrives at a switch
    delay: float = 0.0  # from a packet's last bit on a link to the next node
    naps: bool = False  # whether workers let results gather, as those of hosts.drivers.stream do
    bursts: bool = False  # whether links are HTB's: a token bucket lets a short burst pass at once


@dataclass(frozen=True)
class Known:
    """Costs in seconds: of packets, and of a message over TCP beside its time on the links; where they are from."""

    packets: Costs
    message: float
    origin: str
    over_tcp: bool = False  # whether messages go in segments (testbed.simulator.tcp); else they are flows that share links

    @property
    def virtual(self) -> Costs:
        """Those of packets in virtual time, where emulated links are token buckets."""
        return replace(self.packets, delay=HOP, bursts=True) if self.over_tcp else self.packets


@cache
def _all() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(PATH.read_text())
    return found


def names() -> list[str]:
    """Whose costs are known."""
    return [NONE, DPDK, *_all()]


def of(name: str) -> Known:
    """The costs of that name. ValueError says which there are."""
    if name == NONE:
        return Known(Costs(), 0.0, "links alone take time")
    if name == DPDK:
        return hardware()
    if name not in _all():
        raise ValueError(f"costs {name} are unknown: choose one of {', '.join(names())}")
    its = _all()[name]
    return emulated(its["seconds"], its["origin"])


def hardware() -> Known:
    """Costs of hosts with DPDK, as FD.io's CSIT report 22.06 has them (2n-skx, Intel X710, testpmd's l2xcbase, 64 B, 2t1c).

    Rate and time are of packets that are received and sent again: half of the one is a packet's, half of the other a link's. It is
    what packets take, not what is done with them; and the rate was the links', so a core may take less. Of switches no figure was
    found that can be cited: they take nothing.
    """
    return Known(
        Costs(host=1 / (2 * FORWARDED), delay=THROUGH / 2), 0.0,
        "a core receives and sends 29.61 million packets a second, each takes 8 µs through the host, the switch takes nothing "
        "(FD.io CSIT 22.06: 2n-skx, X710, testpmd l2xcbase, 64b-2t1c, NDR, P50 at a tenth of the load)",
    )  # fmt: skip


def emulated(seconds: dict[str, float], origin: str) -> Known:
    """Costs of workers and connections that are real: workers nap, and messages go over TCP."""
    packets = Costs(seconds["host"], seconds["batch"], seconds["switch"], seconds["delay"], naps=True)
    return Known(packets, seconds["message"], origin, over_tcp=True)


def origins() -> dict[str, str]:
    """Of all costs, by name."""
    return {name: of(name).origin for name in names()}


def forget() -> None:
    """Read costs.json again: it has been written."""
    _all.cache_clear()
