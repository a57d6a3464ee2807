"""p4/switchml.p4 against the independent model, over random interleavings of loss, duplication and reordering."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, IPOption
from scapy.layers.l2 import Ether

from inalab.hosts.switchml import wire
from inalab.switches.embedded.offline import OfflineSwitch
from tests.packets import PARENT_PORT, SWITCH, K, TestJob, frame, program, read, vector
from tests.properties import examples
from tests.reference import PARENT, QUERY, RESULT, STATUS, UPDATE, Message, ModelSwitch, Part

SLOTS = 3
ROUNDS = 5


def switch(job: TestJob) -> OfflineSwitch:
    made = OfflineSwitch(program())
    for line in job.commands():
        made.command(line)
    return made


WAYS = {True: 1, False: 2}  # of a part: to the owner, or from it


def as_message(data: bytes, kind: str) -> Message:
    h = read(data)
    numbers, part = with_part(h.vector)
    return Message(kind, h.epoch, h.worker, h.version, h.slot, h.chunk, h.exponent, numbers, part=part)


def with_part(numbers: list[int]) -> tuple[tuple[int, ...], Part | None]:
    """What is behind a header: a tag or a vector, and a part behind that, if there is one."""
    if len(numbers) not in (2, K + 1):
        return tuple(numbers), None
    return tuple(numbers[:-1]), Part(numbers[-1] >> 24 == WAYS[True], numbers[-1] & 0xFFFF)


def behind(m: Message) -> list[int]:
    """The other way round."""
    return [*m.vector, *([WAYS[m.part.to_owner] << 24 | m.part.owner] if m.part else [])]


def values(worker: int, chunk: int) -> list[int]:
    """Numbers that tell workers and chunks apart, near the ends of int32 too."""
    return vector(worker * 1000 + chunk % 1000, 2**31 - 1 - worker, -(2**31) + chunk % 1000, -worker - 1)


def packet_of(job: TestJob, m: Message) -> bytes:
    return job.update(m.worker, m.slot, m.chunk, behind(m), m.version, m.exponent, m.epoch)


def expect(job: TestJob, made: OfflineSwitch, model: ModelSwitch, m: Message) -> None:
    """Send one update to both; the same must come out."""
    sent = made.send(job.port(m.worker), packet_of(job, m))
    predicted = model.update(m)
    if predicted is None:
        assert sent == []
        return
    where, out = predicted
    if where == "up":
        ((port, data),) = sent
        assert (port, as_message(data, UPDATE)) == upwards(job, model, replace(out, kind=UPDATE))
        assert read(data).kind == wire.KIND_UPDATE
        return
    receivers = below(model, m) if where == "all" else [m.worker]
    assert [port for port, _ in sent] == [job.port(link) for link in receivers]
    for link, (_, data) in zip(receivers, sent, strict=True):
        assert read(data).kind == wire.KIND_RESULT
        assert as_message(data, RESULT) == replace(model.copy(out, link), kind=RESULT, worker=link)


def below(model: ModelSwitch, m: Message) -> list[int]:
    """The links to which a result of a message's round goes."""
    tree = model.tree(m.part)
    assert tree is not None
    return sorted(tree.below)


def upwards(job: TestJob, model: ModelSwitch, out: Message) -> tuple[int, Message]:
    """Where a sum or a query goes, and as whose."""
    link = model.above(out)
    assert link is not None
    return job.port(link), replace(out, worker=job.number_there(link))


KINDS = {wire.KIND_UPDATE: UPDATE, wire.KIND_RESULT: RESULT, wire.KIND_QUERY: QUERY, wire.KIND_STATUS: STATUS}


def read_as(data: bytes) -> Message:
    """What a packet of any kind says."""
    h = read(data)
    seen = frozenset(w for w in range(32) if (h.seen or 0) >> w & 1)
    again, insists = h.kind != wire.KIND_STATUS and h.mark == 1, h.kind == wire.KIND_QUERY and h.mark == wire.MARK_INSISTS
    seen = seen if h.kind == wire.KIND_STATUS else frozenset()
    numbers, part = with_part(h.vector)
    return Message(KINDS[h.kind], h.epoch, h.worker, h.version, h.slot, h.chunk, h.exponent, numbers, again, insists, seen, part)


def ask(job: TestJob, made: OfflineSwitch, model: ModelSwitch, m: Message) -> None:
    """Send one query to both; the same must come out."""
    header = {
        "job": job.number, "worker": m.worker, "kind": wire.KIND_QUERY, "version": m.version, "slot": m.slot, "chunk": m.chunk,
        "exponent": m.exponent, "epoch": m.epoch, "mark": wire.MARK_INSISTS if m.insists else int(m.again),
    }  # fmt: skip
    sent = made.send(job.port(m.worker), frame(job.station(m.worker), SWITCH, header, []))
    predicted = model.query(m)
    if predicted is None:
        assert sent == []
        return
    where, out = predicted
    ((port, data),) = sent
    assert (port, read_as(data)) == (upwards(job, model, out) if where == "up" else (job.port(m.worker), out))


def deliver_status(
    job: TestJob, made: OfflineSwitch, model: ModelSwitch, m: Message, has_us: bool, level: int, link: int = PARENT
) -> None:
    """Let a status come to both by a link: of the switch there, or of a level above it, where bits are about others."""
    number = job.number_there(link)
    seen = {3} | ({number} if has_us else set())
    header = {
        "job": job.number, "worker": number, "kind": wire.KIND_STATUS, "version": m.version, "slot": m.slot, "chunk": m.chunk,
        "exponent": m.exponent, "epoch": m.epoch, "seen": sum(1 << n for n in seen), "mark": level,
    }  # fmt: skip
    sent = made.send(job.port(link), frame(job.station(link), SWITCH, header, []))
    predicted = model.status(m, has_us or level > 0, link)
    if predicted is None:
        assert sent == []
        return
    where, out = predicted
    if where == "up":
        ((port, data),) = sent
        assert (port, read_as(data)) == upwards(job, model, out)
        return
    cell = model._current(m)
    receivers = below(model, replace(m, part=cell and cell.part))
    assert [port for port, _ in sent] == [job.port(to) for to in receivers]
    for to, (_, data) in zip(receivers, sent, strict=True):
        assert read(data).mark == level + 1
        assert read_as(data) == replace(out, worker=to, seen=frozenset(seen))


def model_of(job: TestJob) -> ModelSwitch:
    """The model of a job's switch."""
    owners = {rank: worker for worker in range(job.workers) for rank in job.ranks(worker)}
    return ModelSwitch(job.workers, job.has_parent, owners, job.switches)


class Group:
    """The workers of a job between two restarts, and the switch above: their epoch, where their stream starts, and how far each is in
    each slot."""

    def __init__(self, job: TestJob, epoch: int, start: int) -> None:
        self.job, self.epoch, self.start = job, epoch, start
        self.turn = {(link, s): 0 for link in job.links for s in range(SLOTS)}
        self.rules = model_of(job)

    def update(self, worker: int, slot: int, turn: int, other_shape: bool = False) -> Message:
        """A worker's packet; its values are of this group alone. A third of the rounds is bare, and in another third chunks have owners, who
        may not be below this switch."""
        chunk = (self.start + turn * SLOTS + slot) % 2**32
        bare = ((slot + turn) % 3 == 0) != other_shape
        owned = chunk // 2 % 5
        part = Part((3 * turn + slot + self.epoch) % 2 == 0, 10 * owned + 5 + chunk // 10 % 2) if (slot + turn) % 3 == 1 else None
        if part and not other_shape:
            bare = not self.rules._whole(part, UPDATE, worker)
        elif part and chunk % 3 == 0:
            part, bare = replace(part, owner=part.owner ^ 3), False
        numbers = tuple(v ^ self.epoch & 0xFF for v in values(worker, chunk))[: 1 if bare else None]
        return Message(UPDATE, self.epoch, worker, turn % 2, slot, chunk, (worker * 37 + chunk * 11) % 256, numbers, part=part)


STRANGERS = ("port", "address", "job", "kind", "fragment", "options", "tag")


def stranger(job: TestJob, m: Message, how: str) -> tuple[int, bytes]:
    """A frame that claims to be an update, or a result, and must change nothing: where it comes in, and its bytes."""
    good = packet_of(job, m)
    if how == "port":
        return next(port for port in range(8) if port not in (job.port(m.worker), PARENT_PORT)), good
    if how == "address":
        return job.port(m.worker), good[:28] + bytes([10, 0, 0, 99]) + good[32:]  # and the checksum is wrong, too
    if how == "job":
        return job.port(m.worker), job.update(
            m.worker, m.slot, m.chunk, list(m.vector), m.version, epoch=m.epoch % (2**32 - 1) + 1, change={"job": 1}
        )
    if how == "kind":
        change = {"kind": wire.KIND_RESULT}
        return m.worker % job.workers, job.update(
            m.worker, m.slot, m.chunk, list(m.vector), m.version, epoch=m.epoch, change=change
        )
    packet = Ether(good)
    if how == "tag":
        return job.port(m.worker), good[:12] + bytes.fromhex("81000000") + good[12:]
    if how == "fragment":
        packet[IP].flags = "MF"
    else:
        packet[IP].options = [IPOption(b"\x01" * 4)]
        del packet[IP].ihl, packet[IP].len
    del packet[IP].chksum
    return job.port(m.worker), bytes(packet)


# each step of an interleaving: a worker sends the current round of a slot, something old arrives once more, a stranger
# sends something, or all workers start again
ACTIONS = ("send",) * 6 + ("older", "late", "late", "stranger", "restart", "ask", "ask", "status", "shape")
steps = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.integers(0, 4), st.integers(0, SLOTS - 1), st.integers(0, 999)), max_size=120
)
STARTS = (0, 1, 2**31 - 4, 2**31, 2**32 - 4, 2**32 - 1)


@pytest.mark.parametrize("switches", [frozenset(), frozenset({1, 2})], ids=["workers", "and racks"])
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("has_parent", [False, True])
def test_random_interleavings(workers: int, has_parent: bool, switches: frozenset[int]) -> None:
    @examples(25)
    @given(steps, st.sampled_from([1, 2**31 - 2, 2**32 - 3]))
    def run(script: list[tuple[str, int, int, int]], epoch: int) -> None:
        job = TestJob(workers, SLOTS, has_parent=has_parent, switches=switches)
        with switch(job) as made:
            play(job, made, script, epoch)

    run()


@pytest.mark.parametrize("switches", [frozenset(), frozenset({0, 1})], ids=["workers", "and racks"])
@pytest.mark.parametrize("has_parent", [False, True])
def test_an_owners_packet_among_the_others_in_every_order(has_parent: bool, switches: frozenset[int]) -> None:
    """In either direction, of each worker, of a rack's second owner, and of one elsewhere. First come packets of the other shape; at
    the end each link brings a query, a result, and its update again."""
    job = TestJob(3, SLOTS, has_parent=has_parent, switches=switches)
    model, elsewhere = model_of(job), [99] if has_parent else []
    rounds = itertools.product(
        itertools.permutations(job.links), (True, False), [*job.ranks(0), *job.ranks(1)[1:], *job.ranks(2)[1:], *elsewhere]
    )
    with switch(job) as made:
        for turn, (order, to_owner, owner) in enumerate(rounds):
            part, chunk = Part(to_owner, owner), turn * SLOTS

            def update(worker: int, whole: bool, part: Part = part, chunk: int = chunk, turn: int = turn) -> Message:
                numbers = tuple(values(worker, chunk) if whole else (0,))
                return Message(UPDATE, 7, worker, turn % 2, 0, chunk, 10 * worker % 99 + turn % 9, numbers, part=part)

            right = {link: model._whole(part, UPDATE, link) for link in order}
            for link in order:
                expect(job, made, model, update(link, not right[link]))
                expect(job, made, model, update(link, right[link]))
                expect(job, made, model, update(link, right[link]))
            assert model._complete(model.cells[turn % 2, 0])
            for link in order:
                ask(job, made, model, replace(update(link, False), kind=QUERY, vector=(), part=None))
                for whole in (False, True):
                    down = replace(update(8, whole), kind=RESULT, exponent=200)
                    deliver_result(job, made, model, down, twice=True, link=link)
                ask(job, made, model, replace(update(link, False), kind=QUERY, vector=(), part=None))
                expect(job, made, model, update(link, right[link]))


def play(job: TestJob, made: OfflineSwitch, script: list[tuple[str, int, int, int]], epoch: int) -> None:
    """Go through an interleaving on the switch and on the model at once."""
    model, group = model_of(job), Group(job, epoch, STARTS[epoch % len(STARTS)])
    history: list[Message] = []
    for action, w, slot, n in script:
        worker = job.links[w % len(job.links)]
        now = group.turn[worker, slot]
        # a worker advances once its round is complete everywhere
        cell = model.cells.get((now % 2, slot)) if model.epoch == group.epoch else None
        mine = group.update(worker, slot, now)
        finished = cell is not None and cell.chunk == mine.chunk and model._complete(cell)
        above = model.above(mine)
        if above is None or n % 11 == 0:
            above = job.links[n % len(job.links)]  # which the switch takes nothing from
        if action == "restart":
            epoch = (epoch + n % 3) % (2**32 - 1) + 1
            group = Group(job, epoch, STARTS[n % len(STARTS)])
        elif action in ("ask", "status"):
            m = replace(
                group.update(worker, slot, max(0, now - n % 4 // 3)), vector=(), part=None, exponent=n % 256, again=n % 3 == 0
            )
            if action == "ask":
                ask(job, made, model, replace(m, kind=QUERY, insists=n % 3 > 0 and n % 5 == 0))
            else:
                deliver_status(job, made, model, replace(m, kind=STATUS, again=False), n % 2 == 0, n % 5 // 4, above)
        elif action == "late" and history:
            old = history[n % len(history)]
            deliver_result(job, made, model, old, False, above) if old.kind == RESULT else expect(job, made, model, old)
        elif action == "shape":  # which no worker does, and must not be added to a sum
            expect(job, made, model, group.update(worker, slot, now, other_shape=True))
        elif action == "stranger":
            port, data = stranger(job, mine, STRANGERS[n % len(STRANGERS)])
            assert made.send(port, data) == []
        elif finished and cell is not None and not cell.final and model.above(mine) is not None:
            whole = cell.part is None or n % 4 == 0 or model._whole(cell.part, RESULT, above)
            sums = tuple(v ^ 1 for v in values(9, mine.chunk)) if cell.part and whole else tuple(v ^ 1 for v in cell.total)
            down = replace(mine, kind=RESULT, exponent=200, vector=sums if whole else (0,), part=cell.part)
            history.append(down)
            deliver_result(job, made, model, down, twice=n % 10 == 9, link=above)
        else:
            if action == "older":
                mine = group.update(worker, slot, max(0, now - n % 3))
            elif finished and now + 1 < ROUNDS:
                group.turn[worker, slot] += 1
                mine = group.update(worker, slot, now + 1)
            history.append(mine)
            expect(job, made, model, mine)


def deliver_result(job: TestJob, made: OfflineSwitch, model: ModelSwitch, m: Message, twice: bool, link: int = PARENT) -> None:
    header = {
        "job": job.number, "worker": job.number_there(link), "kind": wire.KIND_RESULT, "version": m.version, "slot": m.slot, "chunk": m.chunk,
        "exponent": m.exponent, "epoch": m.epoch,
    }  # fmt: skip
    for _ in range(1 + twice):
        sent = made.send(job.port(link), frame(job.station(link), SWITCH, header, behind(m)))
        predicted = model.result(m, link)
        receivers = below(model, m) if predicted else []
        assert [port for port, _ in sent] == [job.port(to) for to in receivers]
        for to, (_, data) in zip(receivers, sent, strict=True):
            got, copy = as_message(data, RESULT), model.copy(predicted[1], to)
            assert (got.worker, got.epoch, got.vector, got.exponent, got.part) == (to, m.epoch, copy.vector, m.exponent, m.part)
