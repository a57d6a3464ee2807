"""The control plane of p4/switchml.p4: what a switch must be told, as commands that both targets take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

UDP_PORT = 48864
FLOOD_GROUP = 1
FIRST_JOB_GROUP = 100
BROADCAST = "ff:ff:ff:ff:ff:ff"
MAX_WORKERS = 32  # below one switch
MAX_JOBS = 16


@dataclass(frozen=True)
class Station:
    """An interface at the end of a link: its Ethernet and IPv4 address."""

    mac: str
    ip: str


@dataclass(frozen=True)
class Child:
    """A worker, or the switch of a rack, below a switch: number in the bitmap, switch port, address."""

    number: int
    port: int
    station: Station
    udp_port: int = UDP_PORT


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


def forwarding(ports: Iterable[int], routes: dict[str, int]) -> list[str]:
    """Ordinary traffic: broadcast to `ports`, and the port for each MAC address."""
    commands = [f"mc_mgrp_create {FLOOD_GROUP}", f"mc_node_create 1 {' '.join(map(str, sorted(ports)))}"]
    commands += [f"mc_node_associate {FLOOD_GROUP} 0", f"table_add forwarder.stations flood {BROADCAST} => {FLOOD_GROUP}"]
    commands += [f"table_add forwarder.stations forward {mac} => {port}" for mac, port in sorted(routes.items())]
    return commands


def job(number: int, pool: Pool, children: list[Child], parent: Parent | None, first_node: int = 1) -> list[str]:
    """Admit a job: its pool, its workers (or racks), and the switch above.

    `first_node` is the handle of the first multicast node that this call creates; handles count up from 0.
    """
    if not 0 <= number < MAX_JOBS:
        raise ValueError(f"job {number}: the program holds jobs 0 to {MAX_JOBS - 1}")
    if len(children) > MAX_WORKERS:
        raise ValueError(f"{len(children)} workers below one switch: the program holds {MAX_WORKERS}")
    everyone = sum(1 << c.number for c in children)
    group = FIRST_JOB_GROUP + number
    commands = [
        f"table_add admission.jobs set_job {number} => {pool.base} {pool.slots} {everyone} {group} {int(parent is not None)}",
        f"mc_mgrp_create {group}",
    ]
    for i, c in enumerate(children):
        s = c.station
        commands += [
            f"table_add admission.workers admit_worker {number} {c.number} {c.port} {s.mac} {s.ip} =>",
            f"table_add addresser.destinations to_worker {number} {c.number + 1} => {s.mac} {s.ip} {c.udp_port}",
            f"mc_node_create {c.number + 1} {c.port}",
            f"mc_node_associate {group} {first_node + i}",
        ]
    if parent is not None:
        p, own = parent.station, parent.own
        commands += [
            f"table_add admission.parents admit_parent {number} {parent.port} {p.mac} {p.ip} =>",
            f"table_add sender.uplinks to_parent {number} => {parent.port} {parent.number} {own.mac} {own.ip} {p.mac} {p.ip}",
        ]
    return commands


@dataclass(frozen=True)
class Loss:
    """Loss on one direction of a link. Probabilities per packet; `enter` 0 is Bernoulli loss at `good`."""

    good: float = 0.0
    bad: float = 0.0
    enter: float = 0.0
    leave: float = 0.0

    @classmethod
    def bernoulli(cls, rate: float) -> Loss:
        return cls(good=rate)

    @classmethod
    def gilbert_elliott(cls, mean: float, burst: float) -> Loss:
        """Everything is lost in the bad state, nothing in the good one: mean rate p/(p+r), bursts of 1/r packets."""
        if not 0 <= mean < 1 or burst < 1:
            raise ValueError(f"bursty loss needs a mean in [0, 1) and bursts of at least 1 packet, not {mean} and {burst}")
        leave = 1 / burst
        enter = leave * mean / (1 - mean)
        if enter > 1:
            raise ValueError(f"a mean loss of {mean} in bursts of {burst} packets is not possible")
        return cls(good=0.0, bad=1.0, enter=enter, leave=leave)

    @property
    def mean(self) -> float:
        """The long-run loss rate."""
        share = self.enter / (self.enter + self.leave) if self.enter else 0.0
        return self.good * (1 - share) + self.bad * share


def mix(x: int) -> int:
    """The finalizer of MurmurHash3 on 32 bits, as in p4/include/loss.p4."""
    x &= 0xFFFFFFFF
    x = (x ^ x >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    x = (x ^ x >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return x ^ x >> 16


def link_seed(seed: int, link: int, direction: int) -> int:
    """The 32-bit seed of one direction (0: into the switch, 1: out of it) of a link."""
    return mix(seed ^ mix(2 * link + direction + 1))


def threshold(probability: float) -> int:
    """A probability as the program compares it: times 2^32, at most 2^32 - 1."""
    if not 0 <= probability <= 1:
        raise ValueError(f"{probability} is not a probability")
    return min(round(probability * 2**32), 2**32 - 1)


def decisions(loss: Loss, seed: int, packets: int) -> list[bool]:
    """Which of the first `packets` packets of a link's direction are lost; what p4/include/loss.p4 decides."""
    lost, bad = [], False
    for n in range(packets):
        draw = mix(seed ^ mix(n))
        if mix(draw ^ 0x5BD1E995) < threshold(loss.leave if bad else loss.enter):
            bad = not bad
        lost.append(draw < threshold(loss.bad if bad else loss.good))
    return lost


def set_loss(direction: int, port: int, loss: Loss, seed: int) -> list[str]:
    """Lose packets from now on; direction 0 is into the switch, 1 is out of it. `seed` is the link_seed."""
    name = ("loss_in", "loss_out")[direction]
    commands = [
        f"register_write {name}.{field} {port} {value}"
        for field, value in (
            ("seed", seed),
            ("good", threshold(loss.good)),
            ("bad", threshold(loss.bad)),
            ("enter", threshold(loss.enter)),
            ("leave", threshold(loss.leave)),
            ("state", 0),
            ("number", 0),
        )
    ]
    return [*commands, f"register_write {name}.mode {port} 1"]
