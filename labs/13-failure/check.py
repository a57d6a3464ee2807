"""Lab 13: a group whose members fail, and sums that are those of its members alone."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from inalab.testbed.lab.aggregation import EVERYBODY, LANES, Update, address, group, read, result, sum_of, update, vector, write
from inalab.testbed.lab.confinement import GIVEN
from inalab.testbed.lab.lab import Failure, Lab
from inalab.testbed.lab.network import HostOn, Loss, Network, Packet, losing
from inalab.testbed.lab.scripted import Source
from inalab.testbed.lab.summing import LINK, Tensor, check_sums, shown, tensors
from inalab.testbed.lab.switch import StudentSwitch
from inalab.testbed.lab.workbench import Workbench

lab = Lab(
    "When a worker fails", language="P4, Python", hours=5, files=["failure.p4", "coordinator.py"],
    given=["headers.p4", "wire.py", "group_worker.py"],
)  # fmt: skip

UPDATE, GROUP, ALIVE, DONE, COMMIT = 1, 3, 4, 5, 6
WORKERS = 6
PERIOD, PATIENCE = 500.0, 2000.0  # microseconds
Calls = list[tuple[str, Any]]


def bits(members: Sequence[int]) -> int:
    return sum(1 << member for member in members)


def started(bench: Workbench, workers: int) -> tuple[StudentSwitch, int]:
    """The student's switch, with worker w at port w + 1; and the coordinator's port, which is drawn anew each time."""
    port = int(np.random.default_rng().integers(17, 33))
    return bench.switch(
        [f"table_set_default coordinator set_coordinator {port}", *group(range(1, workers + 1))], ports=port + 1
    ), port


class Desk:
    """The student's switch with a group, and the vectors of its members: worker w's in round r of epoch e is one of its own."""

    def __init__(self, bench: Workbench, workers: int = WORKERS) -> None:
        self.switch, self.coordinator = started(bench, workers)
        self.workers, self.epoch, self.members = workers, 0, [*range(workers)]

    def adopt(self, epoch: int, members: Sequence[int]) -> None:
        """The coordinator makes a group; where its packet goes is another task's."""
        self.epoch, self.members = epoch, list(members)
        self.switch.send(self.coordinator, write(Update(GROUP, job=epoch, values=(bits(members),) + (0,) * (LANES - 1))))

    def values(self, worker: int, number: int, slot: int) -> list[int]:
        return vector(10_000 * self.epoch + 100 * number + 16 * slot + worker)

    def sent(self, worker: int, number: int, slot: int, **fields: Any) -> Any:
        place = {"version": number % 2, "slot": slot, "chunk": slot + 256 * number, "job": self.epoch} | fields
        return update(worker, self.values(worker, number, slot), **place)

    def waits(self, worker: int, number: int, about: str, slot: int = 5, **fields: Any) -> None:
        """The vector must end in the switch."""
        self.switch.expect(worker + 1, self.sent(worker, number, slot, **fields), [], about)

    def gives(self, worker: int, number: int, about: str, slot: int = 5, alone: bool = False) -> None:
        """The sum must leave: to all, or to this worker alone, which sends again."""
        values = sum_of([self.values(member, number, slot) for member in self.members])
        place = {"version": number % 2, "slot": slot, "chunk": slot + 256 * number, "job": self.epoch}
        made = result(worker, values, address(worker) if alone else EVERYBODY, **place)
        ports = [worker + 1] if alone else range(1, self.workers + 1)
        self.switch.expect(worker + 1, self.sent(worker, number, slot), [(port, made) for port in ports], about, ["worker", "dst"])

    def round(self, number: int, slot: int = 5) -> None:
        *others, last = self.members
        for worker in others:
            self.waits(worker, number, f"epoch {self.epoch}, round {number}: worker {worker} is not the last", slot)
        about = (
            f"epoch {self.epoch}, round {number}: all members {self.members} have given: their sum, and nothing else, must leave"
        )
        self.gives(last, number, about, slot)


def drawn(workers: int, least: int = 2, most: int = WORKERS) -> list[int]:
    """Some of the workers, drawn anew each time; never the first ones alone."""
    draw = np.random.default_rng()
    size = int(draw.integers(least, min(most, workers - 1) + 1))
    while (members := sorted(int(w) for w in draw.choice(workers, size, replace=False))) == [*range(size)]:
        pass
    return members


@lab.task("the coordinator and the workers reach each other", points=10)
def reach(bench: Workbench) -> None:
    desk = Desk(bench)
    for kind, epoch, name in ((GROUP, 3, "GROUP"), (GROUP, 3, "GROUP"), (COMMIT, 3, "COMMIT"), (GROUP, 2, "GROUP")):
        made = update(0, [bits([0, 2, 5])], kind=kind, job=epoch)
        about = f"a {name} from the coordinator must reach all workers as it is, also where it is not new"
        desk.switch.expect(desk.coordinator, made, [(port, made) for port in range(1, WORKERS + 1)], about)
    for kind, name in ((ALIVE, "an ALIVE"), (DONE, "a DONE")):
        made = update(4, [], kind=kind, job=1)
        desk.switch.expect(5, made, [(desk.coordinator, made)], f"{name} must reach the coordinator as it is, whoever sends it")
    for kind in (GROUP, COMMIT, 2, 7):
        about = f"a packet of kind {kind} from a worker must be dropped: only the coordinator makes and commits groups"
        desk.switch.expect(2, update(1, [bits([1])], kind=kind, job=9), [], about)


@lab.task("the members' vectors make a sum", points=15)
def members(bench: Workbench) -> None:
    for epoch, who in ((1, [*range(WORKERS)]), (2, drawn(WORKERS)), (7, [5]), (8, drawn(WORKERS))):
        desk = Desk(bench)
        desk.adopt(epoch, who)
        for number in range(3):
            desk.round(number)
            desk.round(number, slot=200)
        *_, last = who
        desk.gives(last, 2, "a member that sends again lacks the sum: it must get it, and nobody else", alone=True)
        if len(who) > 1:
            desk.waits(who[0], 3, "the next round is not complete")
            desk.waits(who[0], 3, "a vector that comes twice is in the sum once")


@lab.task("nothing of an earlier group enters a sum", points=15)
def earlier(bench: Workbench) -> None:
    draw = np.random.default_rng()
    for _ in range(2):
        desk = Desk(bench)
        who = drawn(WORKERS, 3)
        half, whole, next_half, unused, late = (int(slot) for slot in draw.choice(256, 5, replace=False))
        epoch = int(draw.integers(1, 60))
        desk.adopt(epoch, range(WORKERS))
        for worker in who[:2] + [w for w in range(WORKERS) if w not in who]:
            desk.waits(worker, 0, "the sum is not complete", slot=half)  # half a sum, also of who dies
            desk.waits(worker, 1, "the sum is not complete", slot=next_half)
            desk.waits(worker, 0, "the sum is not complete", slot=late)
        desk.round(0, slot=whole)  # a whole one
        desk.waits(who[0], 1, "the sum is not complete", slot=whole)
        desk.adopt(epoch + 1, who)
        for slot in (half, whole, next_half):
            for number in range(3):
                desk.round(number, slot)
        desk.adopt(epoch + 2, who[1:])
        desk.round(2, slot=whole)
        desk.round(1, slot=unused)
        desk.round(0, slot=late)
    for bit in range(8):
        desk = Desk(bench)
        desk.adopt(before := 1 if bit else 2, range(WORKERS))
        desk.waits(5, 0, "the sum is not complete")
        desk.adopt(before ^ 1 << bit, [0, 1, 5])  # every bit of an epoch counts
        desk.round(0)


@lab.task("who is not in the group adds nothing", points=10)
def outside(bench: Workbench) -> None:
    desk = Desk(bench)
    desk.waits(0, 0, "there is no group yet: a vector must be dropped")
    who = drawn(WORKERS)
    (other, *_) = [w for w in range(WORKERS) if w not in who]
    now = int(np.random.default_rng().integers(100, 156))
    desk.adopt(now, who)
    desk.waits(who[0], 0, "the sum is not complete")
    desk.waits(other, 0, f"worker {other} is not in the group {who}: its vector must be dropped")
    for epoch in (now - 1, now + 1, *(now ^ 1 << bit for bit in range(8))):
        for worker in [*who[1:], other]:
            desk.waits(worker, 0, f"the group has epoch {now}: a vector of epoch {epoch} must be dropped", job=epoch)
    made = [
        (now - 1, desk.coordinator, "an older GROUP"),
        (now, desk.coordinator, "the same epoch"),
        (now + 5, 2, "a worker's GROUP"),
    ]
    for epoch, port, about in made:
        desk.switch.send(port, write(Update(GROUP, job=epoch, values=(bits([other]),) + (0,) * (LANES - 1))))
        desk.waits(who[0], 0, f"{about} changes nothing: the sum is not complete, and the vector is in it")
    for worker in who[1:-1]:
        desk.waits(worker, 0, "the sum is not complete")
    desk.gives(who[-1], 0, "what was dropped must not be in the sum, and the group must be what it was")
    desk.waits(other, 0, f"the sum is complete, but worker {other} is not in the group: it must not get it")


# --- the coordinator


class Relay:
    """Takes the workers' packets to the coordinator at port 0, and its own nowhere: what it sends is watched."""

    def send(self, port: int, packet: bytes) -> list[tuple[int, bytes]]:
        return [] if port == 0 else [(0, packet)]


Said = tuple[float, int, int, int]  # when, by whom, kind, epoch


def answers(
    bench: Workbench, said: Sequence[Said], end: float, workers: int, patience: float = PATIENCE, loss: Loss | None = None
) -> list[tuple[float, Update]]:
    """What the student's coordinator sends until `end`, to workers that say these things."""
    sent: list[tuple[float, Update]] = []

    def watch(packet: Packet) -> None:
        got = read(packet.data)
        if packet.source == "coordinator" and got is not None:
            sent.append((packet.time, got))

    network = Network(watch=watch, loss=loss)
    packets = [(when, write(Update(kind, worker, job=epoch))) for when, worker, kind, epoch in said]
    sources: dict[str, HostOn] = {"workers": Source(sorted(packets)), "end": Source([(end, write(Update(7)))])}
    network.star("s1", Relay(), sources, LINK)
    network.hosts["coordinator"] = bench.host("Coordinator", "the coordinator", "coordinator.py")
    network.join("coordinator", 0, "s1", 0, LINK)
    network.run({"coordinator": {"workers": workers, "period": PERIOD, "patience": patience}})
    return sent


def alive(worker: int, begin: float, end: float, epoch: int, but: Sequence[int] = ()) -> list[Said]:
    """Signs of life, one a period, `but` for those that are lost."""
    times = np.arange(begin, end, PERIOD).tolist()
    return [(when, worker, ALIVE, epoch) for n, when in enumerate(times) if n not in but]


def expect_groups(sent: Sequence[tuple[float, Update]], wanted: Sequence[tuple[float, list[int]]]) -> None:
    """Group n + 1 must be of these members, and be made first within a period and a bit after this time."""
    found: list[tuple[float, int, int]] = []
    for when, one in sent:
        if one.kind == GROUP and (not found or found[-1][1:] != (one.job, one.values[0])):
            found.append((when, one.job, one.values[0]))
    lines = "\n".join(f"{when:>10.1f} µs  epoch {epoch}  members {bitmap:06b}" for when, epoch, bitmap in found)
    if [(epoch, bitmap) for _, epoch, bitmap in found] != [(n, bits(who)) for n, (_, who) in enumerate(wanted, 1)]:
        due = ", then ".join(f"epoch {n} of workers {who}" for n, (_, who) in enumerate(wanted, 1))
        raise Failure(f"the groups must be {due}", f"The coordinator makes\n{lines or 'no group'}")
    for (when, epoch, _), (due_at, _) in zip(found, wanted, strict=True):
        if not due_at - 1 <= when <= due_at + PERIOD + 300:
            raise Failure(
                f"group {epoch} is due between {due_at:.0f} and {due_at + PERIOD:.0f} µs: a worker is dead when nothing has been "
                f"heard of it for longer than {PATIENCE:g} µs; it comes at {when:.0f}", lines,
            )  # fmt: skip


@lab.task("who is silent for longer than the patience is put out, and nobody else", points=10)
def silent(bench: Workbench) -> None:
    draw = np.random.default_rng()
    first, second, third, fourth = (int(w) for w in draw.permutation(4))
    dies, too = 6000 + 500 * draw.random(), 16_000 + 500 * draw.random()
    late = PATIENCE + 60  # a packet's way from worker to coordinator
    said = alive(first, 100, dies, 1)
    last_first = said[-1][0]
    of_second = alive(second, 200, dies + late + PERIOD, 1, [4, 5, 6]) + alive(second, dies + late + PERIOD + 50, too, 2)
    last_second = of_second[-1][0]
    said += of_second
    for worker in (third, fourth):
        said += alive(worker, 300 + 40 * worker, dies + late + PERIOD, 1, [9, 10]) + alive(worker, 10_000, 30_000, 2)
    woken = 24_000.0
    said.append((woken, first, ALIVE, 1))
    sent = answers(bench, said, 30_000, 4)
    groups = [
        (0.0, [*range(4)]),
        (last_first + late, sorted([second, third, fourth])),
        (last_second + late, sorted([third, fourth])),
    ]
    expect_groups(sent, groups)
    expect_need(sent, said)
    if not any(woken < when < woken + 400 and one.kind == GROUP for when, one in sent):
        raise Failure(f"worker {first} was put out, and says later that it is alive, in epoch 1: it must get the GROUP again")


def expect_need(sent: Sequence[tuple[float, Update]], said: Sequence[Said]) -> None:
    """A GROUP that is not new must answer somebody who is in another epoch."""
    known = 0
    for when, one in sent:
        if one.kind == GROUP and one.job == known and not any(when - 400 < at < when and now != known for at, _, _, now in said):
            raise Failure(
                f"at {when:.0f} µs the GROUP of epoch {known} is sent again, and nobody lacks it: all say that they are in it"
            )
        known = max(known, one.job) if one.kind == GROUP else known


@lab.task("who is never heard of is put out, too", points=5)
def never(bench: Workbench) -> None:
    absent = drawn(5, most=3)
    there = [worker for worker in range(5) if worker not in absent]
    late = PATIENCE + PERIOD
    said = [one for worker in there for one in alive(worker, 100, late, 1) + alive(worker, late + 300, 12_000, 2)]
    expect_groups(answers(bench, said, 12_000, 5), [(0.0, [*range(5)]), (PATIENCE, there)])


@lab.task("the sum counts when every member has it", points=15)
def commit(bench: Workbench) -> None:
    """The times are drawn, more than once: no time alone can tell when all are done."""
    draw = np.random.default_rng()
    for _ in range(4):
        first, second, third = (int(w) for w in draw.permutation(3))
        living = [one for worker in range(3) for one in alive(worker, 100 + 50 * worker, 8000 + 2000 * worker, 1)]
        times = (500 + np.cumsum(draw.uniform(200, 1400, 6))).tolist()
        done = all_said(DONE, times, [(first, 1), (first, 1), (second, 1), (third, 0), (third, 1), (second, 1)])
        sent = answers(bench, living + done, 20_000, 3)
        expect_commits(sent, 1, times[4], times[4:])
        expect_groups(sent, [(0.0, [0, 1, 2])])  # a death after the commit changes nothing: all have the sum
        living = [one for worker in (first, third) for one in alive(worker, 100, 4000, 1) + alive(worker, 4100, 20_000, 2)]
        living += alive(second, 150, 1000, 1)
        times = [700.0, 900.0, *(4300 + np.cumsum(draw.uniform(200, 3000, 4))).tolist()]
        done = all_said(DONE, times, [(first, 1), (third, 1), (first, 2), (second, 2), (third, 1), (third, 2)])
        sent = answers(bench, living + done, 20_000, 3)
        expect_commits(sent, 2, times[-1], times[-1:])


def all_said(kind: int, times: Sequence[float], by: Sequence[tuple[int, int]]) -> list[Said]:
    """Packets of a kind, each at its time by a worker in an epoch."""
    return [(when, worker, kind, epoch) for when, (worker, epoch) in zip(times, by, strict=True)]


def expect_commits(sent: Sequence[tuple[float, Update]], epoch: int, first: float, after: Sequence[float]) -> None:
    """COMMITs of this epoch alone, none before the first, and one after each of these times."""
    commits = [(when, one.job) for when, one in sent if one.kind == COMMIT]
    lines = "\n".join(f"{when:>10.1f} µs  COMMIT of epoch {job}" for when, job in commits) or "It sends no COMMIT."
    if any(when < first or job != epoch for when, job in commits):
        raise Failure(
            f"epoch {epoch} may be committed once all its members are DONE in it, after {first:.0f} µs, and no other", lines
        )
    for when in after:
        if not any(when < at < when + 400 for at, _ in commits):
            raise Failure(
                f"a DONE at {when:.0f} µs finds all members done: a COMMIT is due, also where there was one before", lines
            )


# --- everything together


class Failing:
    """A host that dies at a time; or hangs from then on, and wakes up with all that has arrived meanwhile.

    If the time is infinite, it dies when it has the whole sum, before it can say so.
    """

    def __init__(self, host: HostOn, at: float, wakes: float | None = None) -> None:
        self.host, self.at, self.wakes = host, at, wakes
        self.kept: list[bytes] = []

    def start(self, now: float, **given: Any) -> Calls:
        return [*self.host.start(now, **given), *([] if self.at == math.inf else [("timer", (self.wakes or self.at, "fails"))])]

    def receive(self, now: float, packet: bytes) -> Calls:
        if now < self.at:
            return self._living(now, self.host.receive(now, packet))
        if self.wakes is not None and now < self.wakes:
            self.kept.append(packet)
            return []
        return self._woken(now, lambda: self.host.receive(now, packet))

    def expire(self, now: float, timer: str) -> Calls:
        if timer == "fails":
            return [("finish", None)] if self.wakes is None else self._woken(now, list)
        if now < self.at:
            return self.host.expire(now, timer)
        if self.wakes is not None and now < self.wakes:
            return [("timer", (self.wakes - now, timer))]
        return self._woken(now, lambda: self.host.expire(now, timer))

    def _living(self, now: float, calls: Calls) -> Calls:
        done = self.at == math.inf and any(kind == "send" and packet[14] == DONE for kind, packet in calls)
        if not done:
            return calls
        self.at = now
        return [("finish", None)]

    def _woken(self, now: float, go_on: Any) -> Calls:
        if self.wakes is None:
            return []
        kept, self.kept = self.kept, []
        return [call for packet in kept for call in self.host.receive(now, packet)] + list(go_on())


CHUNKS = 150


def moment(at: float) -> str:
    return "before its DONE" if at == math.inf else f"at {at:.0f} µs"


def run(
    bench: Workbench, parts: Sequence[Tensor], fails: Mapping[int, Sequence[float]], loss: Loss | None = None,
    patience: float = PATIENCE,
) -> Network:  # fmt: skip
    """Workers sum while some of them fail, each at its time; the others must have the sum of theirs."""
    of_workers: set[bytes] = set()

    def watch(packet: Packet) -> None:
        got = read(packet.data)
        if packet.target == "s1" and packet.source != "coordinator" and got is not None and got.kind in (ALIVE, DONE):
            of_workers.add(packet.data)
        elif packet.target == "coordinator" and packet.data not in of_workers:
            raise Failure("another packet than an ALIVE or a DONE goes to the coordinator: the switch must add, and nobody else")

    network = Network(loss=loss, watch=watch)
    hosts: dict[str, HostOn] = {}
    for worker in range(len(parts)):
        host = bench.given_host(GIVEN / "group_worker.py", "Worker", f"h{worker}")
        hosts[f"h{worker}"] = Failing(host, *fails[worker]) if worker in fails else host
    switch, port = started(bench, len(parts))
    network.star("s1", switch, hosts, LINK)
    network.hosts["coordinator"] = bench.host("Coordinator", "the coordinator", "coordinator.py")
    network.join("coordinator", 0, "s1", port, LINK)
    given: dict[str, dict[str, Any]] = {"coordinator": {"workers": len(parts), "period": PERIOD, "patience": patience}}
    for worker, part in enumerate(parts):
        given[f"h{worker}"] = {"number": worker, "tensor": part, "slots": 16, "rto": 1000.0, "period": PERIOD}
    living = [worker for worker in range(len(parts)) if worker not in fails]
    try:
        network.run(given, until=2e5)
        check_sums({f"h{worker}": network.results[f"h{worker}"] for worker in living}, [parts[worker] for worker in living])
    except Failure as failure:
        told = ", ".join(f"worker {w} {'dies' if len(at) == 1 else 'hangs'} {moment(at[0])}" for w, at in fails.items())
        wording = f"{told or 'nobody fails'}: {failure}; the sum is that of workers {living}"
        raise Failure(wording, "\n".join(filter(None, [failure.trace, shown(network.recent)]))) from None
    return network


@lab.task("workers die, and the others have the sum of theirs", points=10)
def together(bench: Workbench) -> None:
    draw = np.random.default_rng()
    run(bench, tensors(3, CHUNKS * LANES - 5), {})
    for deaths in (1, 1, 2):
        dead = draw.choice(4, deaths, replace=False)
        run(bench, tensors(4, CHUNKS * LANES), {int(worker): [float(draw.uniform(50, 1200))] for worker in dead})
    run(bench, tensors(4, CHUNKS * LANES), {int(draw.integers(4)): [math.inf]})


@lab.task("packets are lost, too, and a worker that was put out wakes up", points=10)
def wakes(bench: Workbench) -> None:
    draw = np.random.default_rng()
    for loss in (0.0, 0.05):
        worker, at = int(draw.integers(4)), float(draw.uniform(200, 1000))
        lossy = losing(loss, seed=4) if loss else None
        run(bench, tensors(4, CHUNKS * LANES), {worker: [at, at + 6000]}, lossy, patience=2 * PATIENCE)
