"""The control plane of p4/switchml.p4: what a switch must be told, as commands that both targets take."""

from __future__ import annotations

from dataclasses import dataclass

from .commands import Commands
from .control import Control
from .forwarding import Station
from .sizes import MAX_JOBS, MAX_WORKERS

UDP_PORT = 48864
FIRST_JOB_GROUP = 100
FIRST_OWNERS_GROUP = FIRST_JOB_GROUP + MAX_JOBS
PARENT = MAX_WORKERS - 1  # as p4/include/switchml/configuration.p4 has it
CELLS = 4096  # as p4/include/switchml/configuration.p4 has it
ROCE_REASONS = 6  # as p4/include/switchml/roce_receiver.p4 numbers them
REASONS = 4  # why packets are turned away, as p4/include/switchml/metadata.p4 numbers them


@dataclass(frozen=True)
class Child:
    """A worker, or the switch of a rack, below a switch: number in the bitmap, switch port, address; the ranks of the workers that
    it is, or that are below it."""

    number: int
    port: int
    station: Station
    udp_port: int = UDP_PORT
    ranks: tuple[int, ...] = ()
    switch: bool = False


@dataclass(frozen=True)
class Parent:
    """The switch above: the port that leads there, its address, and this switch's number there."""

    port: int
    station: Station
    number: int


@dataclass(frozen=True)
class Pool:
    """A job's share of a switch's cells: `slots` in each of two versions, from cell `base` on."""

    base: int
    slots: int


def admit(
    commands: Commands,
    number: int,
    pool: Pool,
    own: Station,
    children: list[Child],
    parent: Parent | None,
    message: int | None = None,
) -> None:
    """Admit a job at a switch with this address: its pool, its workers (or racks), and the switch above.

    The owners below have trees of their own, in which the switch above may be a child; none where a worker has the bit that it has
    there, and none over RoCE, where a `message` has so many packets.
    """
    if not 0 <= number < MAX_JOBS:
        raise ValueError(f"job {number}: the program holds jobs 0 to {MAX_JOBS - 1}")
    if len(children) > MAX_WORKERS:
        raise ValueError(f"{len(children)} workers below one switch: the program holds {MAX_WORKERS}")
    links = {c.number: c for c in children}
    everyone = _multicast(commands, group := FIRST_JOB_GROUP + number, links)
    commands.add(
        f"table_add switchml.admission.jobs set_job {number} => "
        f"{pool.base} {pool.slots} {everyone} {group} {int(parent is not None)}",
    )
    if message is not None:
        _connect(commands, number, message, children, parent)
        owners = False
    else:
        owners = parent is None or PARENT not in links
    if parent is not None and owners:
        links[PARENT] = Child(PARENT, parent.port, parent.station)
    for link, c in links.items():
        s = c.station
        commands.add(f"table_add switchml.admission.workers admit_worker {number} {link} {c.port} {s.mac} {s.ip} =>")
        if message is None:
            commands.add(f"table_add switchml.addresser.destinations to_worker {number} {link + 1} => {s.mac} {s.ip} {c.udp_port}")
    switches = [(c.number, PARENT, c.port, c.station) for c in children if c.switch and owners]
    if parent is not None:
        switches.append((PARENT, parent.number, parent.port, parent.station))
    for link, there, port, s in switches:
        commands.add(
            f"table_add switchml.admission.parents admit_parent {number} {port} {s.mac} {s.ip} => {link}",
            f"table_add sender.uplinks to_parent {number} {link} => {port} {there} {own.mac} {own.ip} {s.mac} {s.ip}",
        )
    if owners:
        _own(commands, number, links)


def pass_by(commands: Commands, number: int) -> None:
    """For a switch that has no part in a job: its packets are forwarded."""
    commands.add(f"table_add switchml.admission.jobs switchml.admission.pass_by {number} =>")


def _connect(commands: Commands, number: int, message: int, children: list[Child], parent: Parent | None) -> None:
    """Where the queue pairs of a job lead, over RoCE (p4/include/switchml/roce_sender.p4)."""
    commands.add(f"table_add queue_pair.messages set_message {number + 1} => {message}")
    for c in children:
        action, last = ("to_switch", PARENT) if c.switch else ("to_worker", c.udp_port)
        commands.add(f"table_add roce_sender.ends.ends {action} {number} {c.number} => {c.station.mac} {c.station.ip} {last}")
    if parent is not None:
        s = parent.station
        commands.add(f"table_add roce_sender.ends.ends to_switch {number} {PARENT} => {s.mac} {s.ip} {parent.number}")


def _own(commands: Commands, number: int, links: dict[int, Child]) -> None:
    """The trees of owners below. That of this switch's own workers is one: it is their root, and all its links lead down."""
    first = FIRST_OWNERS_GROUP + number * MAX_WORKERS
    bitmaps: dict[int, int] = {}  # by the group
    for c in (c for c in links.values() if c.ranks):
        action, group, above = ("below", first + c.number, c.number) if c.switch else ("own", first + PARENT, None)
        if group not in bitmaps:
            bitmaps[group] = _multicast(commands, group, {link: other for link, other in links.items() if link != above})
        commands.add(
            *(
                f"table_add round.ownership.owners {action} {number} {rank} => {bitmaps[group]} {group} {c.number}"
                for rank in c.ranks
            )
        )


def _multicast(commands: Commands, group: int, links: dict[int, Child]) -> int:
    """Create the multicast group of these links; their bitmap."""
    commands.add(f"mc_mgrp_create {group}")
    for link, c in links.items():
        commands.multicast_node(group, link + 1, [c.port])
    return sum(1 << link for link in links)


def configure_roce(commands: Commands, own: Station) -> None:
    """Add what a switch with p4/switchml_rdma.p4 needs whichever jobs there are: its address."""
    commands.add(f"table_add addresses is_own {own.ip} =>")


def rejected(control: Control) -> list[int]:
    """Packets that admission has turned away, by reason."""
    return [control.counter("switchml.admission.rejected", reason) for reason in range(REASONS)]


def refused_by_roce(control: Control) -> list[int]:
    """Packets that p4/switchml_rdma.p4 has refused, by reason."""
    return [
        control.counter("queue_pair.refused", reason) + control.counter("roce_receiver.refused", reason)
        for reason in range(ROCE_REASONS)
    ]


def copies_missing(control: Control, number: int, children: int, has_parent: bool, counter: str = "switchml.addresser.sent") -> int:
    """Copies of a job's multicasts that never reached egress: what a full queue drops, also in silence."""
    links = children + has_parent
    copies = sum(control.counter("sender.broadcasts", 2 * number + above) * (links - above) for above in (0, 1))
    first = number * MAX_WORKERS
    return copies - sum(control.counter(counter, first + link) for link in range(MAX_WORKERS))
