"""The control plane of p4/atp.p4: what a switch must be told, as commands that both targets take.

Bits of bitmap1 are given from both ends: workers of the server's own rack from bit 0 up, other racks from bit 31 down.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .commands import Commands
from .control import Control
from .forwarding import Station
from .sizes import MAX_JOBS, MAX_WORKERS

UDP_PORT = 48866
FIRST_JOB_GROUP = 1000  # SwitchML's jobs, which may be on the same switch, have those before
GROUPS_PER_JOB = 64
SOURCES = 4096  # as p4/include/atp/admission.p4 has it
AGGREGATORS = 4096  # as p4/include/atp/configuration.p4 has it
# what happens to packets, as p4/include/atp/next_step.p4 numbers it
EVENTS = ("claims", "collisions", "completions", "flushes", "passed", "freed", "answers", "repairs")
EVENTS_PER_JOB = 8
REASONS = 3  # why packets are turned away, as p4/include/atp/metadata.p4 numbers them


def rack_bit(rack: int) -> int:
    """The bit of a rack in bitmap1 at another rack's server."""
    return 1 << (MAX_WORKERS - 1 - rack)


@dataclass(frozen=True)
class Source:
    """Where a worker's gradients for one server come in, and the bits that they may carry there.

    `level` is 0 in the rack of a remote worker and 1 in the server's own; `bitmap0` is a value and a mask. `fan_in` is how
    many children a whole sum has at that level of that switch.
    """

    port: int
    worker: Station
    server: Station
    level: int
    bitmap1: int
    bitmap0: tuple[int, int]
    fan_in: int


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


def trunks(ports: Iterable[int]) -> list[str]:
    """Ports that lead to other switches: what those confirm to a server is let through."""
    return [f"table_add atp.admission.confirmations transit {port} =>" for port in sorted(ports)]


def transit() -> list[str]:
    """For a switch that does not aggregate: let gradients through."""
    return ["table_set_default atp.admission.sources transit"]


def relay(commands: Commands, number: int, group: int, own: Station, server: Station, port: int, to: Iterable[Child]) -> None:
    """For a switch on one of several ways: let through what the server sends, which comes in at this port, and pass down results
    that are addressed to the switch. Their group is the job's `group`-th there."""
    whole = FIRST_JOB_GROUP + number * GROUPS_PER_JOB + group
    _multicast(commands, whole, to)
    commands.add(f"table_add atp.admission.servers relay {number} {port} {server.mac} {server.ip} => {whole} {own.ip}")


def _multicast(commands: Commands, group: int, children: Iterable[Child]) -> None:
    """Create a multicast group with a copy for each child."""
    commands.add(f"mc_mgrp_create {group}")
    for child in children:
        commands.multicast_node(group, child.number, [child.port])


def addresses(commands: Commands, number: int, children: Iterable[Child]) -> None:
    """Where the copies of results go, by their numbers."""
    for child in children:
        commands.add(
            f"table_add atp.addresser.destinations to_child {number} {child.number} => {child.station.mac} {child.station.ip}"
        )


def all_pass() -> list[str]:
    """For a switch on one of several ways: gradients and confirmations pass."""
    return [
        "table_set_default atp.admission.sources atp.admission.pass_by",
        "table_set_default atp.admission.confirmations atp.admission.pass_by",
    ]


def passing_by(number: int, port: int, server: Station) -> str:
    """For a switch that has no part in a job: let through what its server sends, which comes in at this port."""
    return f"table_add atp.admission.servers atp.admission.pass_by {number} {port} {server.mac} {server.ip} =>"


@dataclass(frozen=True)
class Server:
    """A parameter server: the ports at which its packets come in, its address, and whom its results are passed on to.

    `rack` is the bit that the switch's rack has there (0 in the server's own), `fan_in` how many children a whole sum has. Of the
    children `above`, any one passes a result on to the other racks.
    """

    ports: tuple[int, ...]
    station: Station
    children: tuple[Child, ...]
    rack: int = 0
    fan_in: int = 0
    above: tuple[Child, ...] = ()

    @property
    def groups(self) -> tuple[tuple[Child, ...], ...]:
        """Alternative multicast groups, one for each uplink."""
        return tuple((*self.children, one) for one in self.above) or (self.children,)


def admit(commands: Commands, number: int, own: Station, sources: Iterable[Source], servers: Iterable[Server]) -> None:
    """Admit a job: its workers' gradients and its servers. `own` is the switch's address."""
    if not 0 <= number < MAX_JOBS:
        raise ValueError(f"job {number}: the program holds jobs 0 to {MAX_JOBS - 1}")
    first: dict[tuple[tuple[Child, ...], ...], int] = {}  # the number of a server's first group, by these
    made = FIRST_JOB_GROUP + number * GROUPS_PER_JOB
    known: set[Child] = set()
    for server in servers:
        if server.groups not in first:
            first[server.groups] = made
            for group, copies in enumerate(server.groups, made):
                _multicast(commands, group, copies)
            made += len(server.groups)
            new = set().union(*server.groups) - known
            addresses(commands, number, sorted(new, key=lambda c: c.number))
            known |= new
        mac, ip = server.station.mac, server.station.ip
        to = f"{first[server.groups]} {len(server.groups)} {own.ip} {server.rack} {server.fan_in}"
        commands.add(*(f"table_add atp.admission.servers from_server {number} {port} {mac} {ip} => {to}" for port in server.ports))
    for s in sources:
        value, mask = s.bitmap0
        commands.add(
            f"table_add atp.admission.sources aggregate {number} {s.port} {s.worker.mac} {s.server.mac} {s.worker.ip} "
            f"{s.server.ip} {s.level} {s.bitmap1} {value}&&&{mask} => {s.fan_in} 1"
        )


def rejected(control: Control) -> list[int]:
    """Packets that admission has turned away, by reason."""
    return [control.counter("atp.admission.rejected", reason) for reason in range(REASONS)]


def events(control: Control, number: int) -> dict[str, int]:
    """What became of a job's packets, by EVENTS."""
    return {event: control.counter("next_step.events", number * EVENTS_PER_JOB + i) for i, event in enumerate(EVENTS)}


def preemptions(control: Control, number: int) -> int:
    """Aggregators that a job has taken from others (p4/esa.p4)."""
    return control.counter("preemption.preemptions", number)


def held(control: Control) -> int:
    """Aggregators that are not free."""
    return sum(bits != 0 for bits in control.registers("aggregator.bitmap"))
