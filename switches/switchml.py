"""The control plane of p4/switchml.p4: what a switch must be told, as commands that both targets take."""

from __future__ import annotations

from dataclasses import dataclass

from .commands import Commands
from .control import Control
from .forwarding import Station
from .sizes import MAX_JOBS, MAX_WORKERS

UDP_PORT = 48864
FIRST_JOB_GROUP = 100
CELLS = 4096  # as p4/include/switchml/configuration.p4 has it
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


@dataclass(frozen=True)
class Parent:
    """The switch above: the port that leads there, its address, this switch's own, and this switch's number there."""

    port: int
    station: Station
    own: Station
    number: int


@dataclass(frozen=True)
class Pool:
    """A job's share of a switch's cells: `slots` in each of two versions, from cell `base` on."""

    base: int
    slots: int


def admit(commands: Commands, number: int, pool: Pool, children: list[Child], parent: Parent | None) -> None:
    """Admit a job: its pool, its workers (or racks), and the switch above."""
    if not 0 <= number < MAX_JOBS:
        raise ValueError(f"job {number}: the program holds jobs 0 to {MAX_JOBS - 1}")
    if len(children) > MAX_WORKERS:
        raise ValueError(f"{len(children)} workers below one switch: the program holds {MAX_WORKERS}")
    everyone = sum(1 << c.number for c in children)
    group = FIRST_JOB_GROUP + number
    above = f"1 {parent.number}" if parent else "0 0"
    commands.add(
        f"table_add admission.jobs set_job {number} => {pool.base} {pool.slots} {everyone} {group} {above}",
        f"mc_mgrp_create {group}",
    )
    for c in children:
        s = c.station
        commands.add(
            f"table_add admission.workers admit_worker {number} {c.number} {c.port} {s.mac} {s.ip} =>",
            f"table_add addresser.destinations to_worker {number} {c.number + 1} => {s.mac} {s.ip} {c.udp_port}",
        )
        commands.add(*(f"table_add round.ownership.owners below {number} {rank} => {c.number}" for rank in c.ranks))
        commands.multicast_node(group, c.number + 1, [c.port])
    if parent is not None:
        p, own = parent.station, parent.own
        commands.add(
            f"table_add admission.parents admit_parent {number} {parent.port} {p.mac} {p.ip} =>",
            f"table_add sender.uplinks to_parent {number} => {parent.port} {own.mac} {own.ip} {p.mac} {p.ip}",
        )


def rejected(control: Control) -> list[int]:
    """Packets that admission has turned away, by reason."""
    return [control.counter("admission.rejected", reason) for reason in range(REASONS)]


def copies_missing(control: Control, number: int, pool: Pool, children: int) -> int:
    """Copies of a job's multicasts to `children` that never reached egress: what a full queue drops, also in silence."""
    broadcasts = sum(control.counter("sender.broadcasts", cell) for cell in range(pool.base, pool.base + 2 * pool.slots))
    first = number * MAX_WORKERS
    return broadcasts * children - sum(control.counter("addresser.sent", first + child) for child in range(MAX_WORKERS))
