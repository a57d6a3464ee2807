"""The control plane of p4/include/forwarder.p4: where ordinary traffic goes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

FLOOD_GROUP = 1
BROADCAST = "ff:ff:ff:ff:ff:ff"


@dataclass(frozen=True)
class Station:
    """An interface at the end of a link: its Ethernet and IPv4 address."""

    mac: str
    ip: str


def forwarding(ports: Iterable[int], routes: dict[str, int]) -> list[str]:
    """Ordinary traffic: broadcast to `ports`, and the port for each MAC address."""
    commands = [f"mc_mgrp_create {FLOOD_GROUP}", f"mc_node_create 1 {' '.join(map(str, sorted(ports)))}"]
    commands += [f"mc_node_associate {FLOOD_GROUP} 0", f"table_add forwarder.stations flood {BROADCAST} => {FLOOD_GROUP}"]
    commands += [f"table_add forwarder.stations forward {mac} => {port}" for mac, port in sorted(routes.items())]
    return commands
