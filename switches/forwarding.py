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


def forward(
    commands: Commands, ports: Iterable[int], routes: Mapping[str, int | range], hosts: Mapping[int, Station] | None = None
) -> None:  # fmt: skip
    """Ordinary traffic: broadcast to `ports`, the port for each MAC address or the ports that all lead there, and which ports are
    whose host's.

    A host may send from its own addresses alone; whatever comes from a port that is no host's is trusted.
    """
    commands.add(f"mc_mgrp_create {FLOOD_GROUP}")
    commands.multicast_node(FLOOD_GROUP, 1, sorted(ports))
    commands.add(f"table_add forwarder.stations flood {BROADCAST} => {FLOOD_GROUP}")
    for mac, port in sorted(routes.items()):
        action = f"multipath {mac} => {port.start} {len(port)}" if isinstance(port, range) else f"forward {mac} => {port}"
        commands.add(f"table_add forwarder.stations {action}")
    guarded = sorted((hosts or {}).items())
    commands.add(*(f"table_add source_guard.hosts host {port} => {s.mac} {s.ip}" for port, s in guarded))


def by_packet(commands: Commands, paths: str = "forwarder.paths") -> None:
    """Where several ports lead to a destination, take them in turn for each packet, instead of one for each flow."""
    commands.add(f"register_write {paths}.by_packet 0 1")


def forwarding(ports: Iterable[int], routes: Mapping[str, int | range], hosts: Mapping[int, Station] | None = None) -> list[str]:
    """The same, as the lines of a switch that has no commands yet."""
    commands = Commands()
    forward(commands, ports, routes, hosts)
    return commands.lines
