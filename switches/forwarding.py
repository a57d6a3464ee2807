"""The control plane of p4/include/forwarder.p4 and source_guard.p4: where ordinary traffic goes, and who may send it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .commands import Commands

FLOOD_GROUP = 1
BROADCAST = "ff:ff:ff:ff:ff:ff"


@dataclass(frozen=True)
class Station:
    """An interface at the end of a link: its Ethernet and IPv4 address."""

    mac: str
    ip: str


def forward(commands: Commands, ports: Iterable[int], routes: dict[str, int], hosts: Mapping[int, Station] | None = None) -> None:
    """Ordinary traffic: broadcast to `ports`, the port for each MAC address, and which ports are whose host's.

    A host may send from its own addresses alone; whatever comes from a port that is no host's is trusted.
    """
    commands.add(f"mc_mgrp_create {FLOOD_GROUP}")
    commands.multicast_node(FLOOD_GROUP, 1, sorted(ports))
    commands.add(f"table_add forwarder.stations flood {BROADCAST} => {FLOOD_GROUP}")
    commands.add(*(f"table_add forwarder.stations forward {mac} => {port}" for mac, port in sorted(routes.items())))
    guarded = sorted((hosts or {}).items())
    commands.add(*(f"table_add source_guard.hosts host {port} => {s.mac} {s.ip}" for port, s in guarded))


def forwarding(ports: Iterable[int], routes: dict[str, int], hosts: Mapping[int, Station] | None = None) -> list[str]:
    """The same, as the lines of a switch that has no commands yet."""
    commands = Commands()
    forward(commands, ports, routes, hosts)
    return commands.lines
