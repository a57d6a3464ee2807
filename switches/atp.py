"""The control plane of p4/atp.p4: what a switch must be told, as commands that both targets take.

Bits of bitmap1 are given from both ends: workers of the server's own rack from bit 0 up, other racks from bit 31 down.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from switches.forwarding import Station

UDP_PORT = 48866
FIRST_JOB_GROUP = 100
MAX_JOBS = 16
MAX_FAN_IN = 32
AGGREGATORS = 4096  # as p4/include/atp/configuration.p4 has it
EVENTS = ("claims", "collisions", "completions", "flushes", "passed", "freed")  # as p4/include/atp/next_step.p4 numbers them
EVENTS_PER_JOB = 8


def rack_bit(rack: int) -> int:
    """The bit of a rack in bitmap1 at another rack's server."""
    return 1 << (MAX_FAN_IN - 1 - rack)


@dataclass(frozen=True)
class Source:
    """Where a worker's gradients for one server come in, and the bits that they may carry there.

    `level` is 0 in the rack of a remote worker and 1 in the server's own; `bitmap0` is a value and a mask.
    """

    port: int
    worker: Station
    server: Station
    level: int
    bitmap1: int
    bitmap0: tuple[int, int]


@dataclass(frozen=True)
class Child:
    """Whom a result is passed on to: a worker or the next switch, with the number of its copy."""

    number: int
    port: int
    station: Station


def settings(lifetime: float, deep: int) -> list[str]:
    """How long (seconds; 0: for ever) an untouched aggregator is respected, and from what depth on a queue marks (0: never)."""
    return [
        f"register_write aggregator.lifetime 0 {round(lifetime * 1e6)}",
        f"register_write congestion.deep 0 {deep}",
    ]


def transit() -> list[str]:
    """For a switch that aggregates for nobody: let gradients through."""
    return ["table_set_default admission.sources transit"]


def job(
    number: int, own: Station, sources: Iterable[Source], servers: Iterable[tuple[int, Station]], children: list[Child],
    first_node: int,
) -> list[str]:  # fmt: skip
    """Admit a job: its workers' gradients, its servers (by port) and whom their results are passed on to.

    `own` is the switch's address; `first_node` the handle of the first multicast node that this call creates.
    """
    if not 0 <= number < MAX_JOBS:
        raise ValueError(f"job {number}: the program holds jobs 0 to {MAX_JOBS - 1}")
    group = FIRST_JOB_GROUP + number
    commands = [f"register_write aggregator.closed {number} 0", f"mc_mgrp_create {group}"]
    for i, child in enumerate(children):
        commands += [
            f"table_add addresser.destinations to_child {number} {child.number} => {child.station.mac} {child.station.ip}",
            f"mc_node_create {child.number} {child.port}",
            f"mc_node_associate {group} {first_node + i}",
        ]
    for port, server in servers:
        commands.append(f"table_add admission.servers from_server {number} {port} {server.mac} {server.ip} => {group} {own.ip}")
    for s in sources:
        value, mask = s.bitmap0
        commands.append(
            f"table_add admission.sources aggregate {number} {s.port} {s.worker.mac} {s.worker.ip} {s.server.ip} {s.level} "
            f"{s.bitmap1} {value}&&&{mask} => 1"
        )
    return commands
