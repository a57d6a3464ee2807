"""SwitchML (NSDI '21): the switches add what all workers send, chunk by chunk, in a pool of slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inalab.hosts.collective import Collective, Membership, Operation
from inalab.hosts.drivers.stream import StreamDriver
from inalab.hosts.place import Place, Pulse
from inalab.hosts.roce import wire as roce
from inalab.hosts.switchml import wire
from inalab.hosts.switchml.worker import SwitchML, operations_in
from inalab.schemes.scheme import Admitted, Cells, Conditions, Look, Simulation
from inalab.schemes.streaming import MOST_SLOTS, P4, RecoverySettings, Streaming
from inalab.switches import switchml
from inalab.switches.commands import Commands
from inalab.switches.control import Control
from inalab.switches.sizes import MAX_JOBS
from inalab.topologies.jobs import JobPlan
from inalab.topologies.plan import NetworkPlan, SwitchPlan


class Settings(RecoverySettings):
    """Slots are those of the job's pool. Without a fixed factor, chunks have exponents of their own."""


class SwitchMLScheme(Streaming):
    """Self-clocked rounds through a pool of slots in every switch on the way up, and a multicast down."""

    name = "switchml"
    look = Look("SwitchML", "#3b6ea8", "o")
    Settings: type[Any] = Settings
    operations = SwitchML.operations
    program = P4 / "switchml.p4"
    simulation, header = Simulation.POOL, wire.STATUS.itemsize
    copies = "switchml.addresser.sent"  # counter of broadcasts' copies
    short = wire.bits_on_wire(1)  # of a round that goes ahead

    def check(self, jobs: Sequence[Admitted], plan: NetworkPlan) -> None:
        if len(plan.racks) > 1 and not plan.roots:
            raise ValueError("scheme switchml needs a switch above its racks: choose a topology that has one, or one rack")
        total = sum(job.settings.slots for job in jobs)
        if total > MOST_SLOTS:
            raise ValueError(f"slots is {total}: from 1 to {MOST_SLOTS} fit in the switch's pool, all jobs together")

    def operations_in(self, membership: Membership) -> tuple[Operation, ...]:
        return operations_in(membership)

    def join(self, place: Place, epoch: int, pulse: Pulse = None) -> Collective:
        s, m = place.settings, place.membership
        local, switch = (place.peers[m.rank], place.port or wire.UDP_PORT), (place.switches[m.rack], wire.UDP_PORT)
        core = SwitchML(m, epoch, s.slots, s.k, s.patience, s.scaling, s.recovery)
        return StreamDriver(core, place.driver, local, [switch], pulse)

    # --- switches

    def queue(self, job: Admitted) -> int:
        return 2 * int(job.settings.slots)

    def commands(self, commands: Commands, plan: NetworkPlan, name: str, jobs: Sequence[Admitted], conditions: Conditions) -> None:
        """Each job has a part of the switch's pool."""
        for job, pool in zip(jobs, _pools(jobs), strict=True):
            admit(commands, plan, job.plan, name, pool, self.message(job.settings))

    def message(self, settings: Any) -> int | None:
        """Packets of a message, over RoCE."""
        return None

    def most_jobs(self, settings: Any) -> int:
        return min(MAX_JOBS, switchml.CELLS // (2 * int(settings.slots)))

    def admit(self, commands: Commands, plan: NetworkPlan, name: str, job: Admitted) -> None:
        """All have as many slots."""
        slots = int(job.settings.slots)
        admit(commands, plan, job.plan, name, switchml.Pool(2 * slots * job.plan.number, slots), self.message(job.settings))

    def counted(self, control: Control, plan: NetworkPlan, name: str, jobs: Sequence[Admitted]) -> dict[str, Any]:
        """Packets turned away by reason, and copies of multicasts that never reached egress."""
        missing = sum(
            switchml.copies_missing(
                control, job.plan.number, len(job.plan.children(plan, name)), _above(plan, job.plan, name) is not None, self.copies
            )
            for job in jobs
        )
        return {"rejected": switchml.rejected(control), "copies_missing": missing}

    def memory(self, control: Control, plan: NetworkPlan, name: str, jobs: Sequence[Admitted]) -> list[Cells]:
        """The newer version of each slot that any worker has used."""
        seen, rounds = control.registers("bitmap_checker.seen"), control.registers("round.round")
        found = []
        for job, pool in zip(jobs, _pools(jobs), strict=True):
            names = _numbered(plan, job.plan, name)
            taken = {}
            for slot in range(pool.slots if names else 0):
                cell = max((pool.base + slot, pool.base + pool.slots + slot), key=lambda cell: rounds[cell])
                if rounds[cell]:
                    inside = [child for bit, child in names.items() if seen[cell] >> bit & 1]
                    taken[slot] = inside, [child for child in names.values() if child not in inside]
            found.append(Cells(f"job {job.plan.number}, slots", pool.slots, taken))
        return found

    # --- theory

    def part_of_memory(self, cells: int, jobs: int, window: int) -> dict[str, int]:
        """An equal pool for each, of two cells for a slot."""
        return {"slots": max(1, min(window, cells // 2 // jobs))}

    def bits_on_wire(self, k: int) -> int:
        return wire.bits_on_wire(k)

    def packets(self, settings: Any, elements: int) -> int:
        """Chunks, and a window of exponents before them."""
        chunks = super().packets(settings, elements)
        return chunks + (min(settings.slots, chunks) if settings.scaling is None else 0)

    def _bare(self, settings: Any, elements: int) -> int:
        """Those before the chunks, which have one integer each."""
        return self.packets(settings, elements) - Streaming.packets(self, settings, elements)

    def on_wire(self, settings: Any, elements: int) -> int:
        without = self.bits_on_wire(int(settings.k)) - self.short
        return super().on_wire(settings, elements) - self._bare(settings, elements) * without

    def bounds_of_step(self, plan: NetworkPlan, settings: Any, tensors: Sequence[int]) -> list[float]:
        """One window of exponents before the first tensor, and before each other one the round that announces it."""
        saved = [max(self._bare(settings, elements) - 1, 0) * self.short / _slowest(plan) for elements in tensors]
        whole = super().bounds_of_step(plan, settings, tensors)
        return [*whole[:1], *(seconds - less for seconds, less in zip(whole[1:], saved[1:], strict=True))]

    def bound(self, plan: NetworkPlan, settings: Any, elements: int) -> float:
        """The slowest link carries each packet once in each direction."""
        return self.on_wire(settings, elements) / _slowest(plan)


def _slowest(plan: NetworkPlan) -> float:
    """Bits a second of the slowest link."""
    return 1e6 * min(link.rate for link in plan.links if link.rate is not None)


def _pools(jobs: Sequence[Admitted]) -> list[switchml.Pool]:
    """The jobs' parts of a switch's cells, one after the other."""
    bases = [sum(2 * other.settings.slots for other in jobs[:n]) for n in range(len(jobs))]
    return [switchml.Pool(base, job.settings.slots) for base, job in zip(bases, jobs, strict=True)]


def _numbered(plan: NetworkPlan, job: JobPlan, name: str) -> dict[int, str]:
    """Who sends its part to the switch `name`, by the bits of its bitmap: workers, racks or pods."""
    inner = plan.switches[name].rack is None
    return {plan.number(child) if inner else i: child for i, child in enumerate(job.children(plan, name))}


def _above(plan: NetworkPlan, job: JobPlan, name: str) -> SwitchPlan | None:
    """Where a switch sends a job's sums: nowhere if all its workers are below."""
    return None if len(job.ranks_below(plan, name)) == job.size else plan.above(name, job.number)


def admit(commands: Commands, plan: NetworkPlan, job: JobPlan, name: str, pool: switchml.Pool, message: int | None = None) -> None:
    """Admission of a job at the switch `name`; nothing where it has no worker below, or another root is the job's. The sums of
    workers in one rack, or in one pod, stay there."""
    stations = {host.name: host.station for host in job.hosts} | {s.name: s.station for s in plan.switches.values()}
    below = _numbered(plan, job, name)
    own_port = switchml.UDP_PORT if message is None else roce.UDP_PORT
    ports = {host.name: job.port or own_port for host in job.hosts}
    children = [
        switchml.Child(
            number,
            plan.port(name, child),
            stations[child],
            ports.get(child, switchml.UDP_PORT),
            ranks=job.ranks_below(plan, child),
            switch=child in plan.switches,
        )
        for number, child in below.items()
    ]
    if not children or any(c.switch and len(c.ranks) == job.size for c in children):
        return
    above = _above(plan, job, name)
    parent = switchml.Parent(plan.port(name, above.name), above.station, plan.number(name)) if above else None
    switchml.admit(commands, job.number, pool, stations[name], children, parent, message)


SCHEME = SwitchMLScheme()
