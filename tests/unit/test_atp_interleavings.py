"""p4/atp.p4 against the independent model, over random interleavings of jobs, duplicates, resends, answers and collisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, IPOption
from scapy.layers.l2 import Ether

from inalab.hosts.atp import wire
from inalab.switches import atp
from inalab.switches.embedded.offline import OfflineSwitch
from tests.atp_packets import RACK, REMOTE, SERVER, SERVER_PORT, UPLINK, AtpJob, read
from tests.atp_reference import Gradient, ModelAtpSwitch, Query, Status
from tests.packets import vector, worker_station
from tests.properties import examples
from tests.unit.test_atp_program import switch

TABLE = 3  # aggregators that the interleavings fight for
OTHER_RACK = 2


def bits(word: int) -> frozenset[int]:
    return frozenset(i for i in range(32) if word >> i & 1)


def word(numbers: frozenset[int]) -> int:
    return sum(1 << n for n in numbers)


def as_gradient(data: bytes) -> Gradient:
    h = read(data)
    assert h.kind == wire.KIND_GRADIENT and h.edge_switch == 1
    flags = (bool(h.resend), bool(h.collision), bool(h.overflow), bool(h.ecn), bool(h.asked))
    exponent = bytes(h.payload)[0] if len(h.vector) == 1 else None
    return Gradient(h.epoch, (h.job, h.sequence), h.index, bits(h.bitmap0), bits(h.bitmap1), tuple(h.vector), *flags, exponent)


def values(worker: int, sequence: int) -> list[int]:
    """Numbers that tell workers and chunks apart, some of which saturate together."""
    return vector(worker * 1000 + sequence, (2**31 - 1) // (1 + worker), -(2**31) + sequence, (-1) ** worker * 2**30)


@dataclass(frozen=True)
class Step:
    """What happens next: who does it (a job, one of its workers), with which chunk, and a choice."""

    kind: str
    number: int
    w: int
    sequence: int
    flag: bool
    n: int


KINDS = (
    "gradient", "gradient", "gradient", "gradient", "resend", "again", "query", "query", "status", "status", "result", "release",
    "late", "late", "stranger", "restart",
)  # fmt: skip
steps = st.lists(
    st.builds(
        Step, st.sampled_from(KINDS), st.integers(0, 1), st.integers(0, 3), st.integers(0, 4), st.booleans(), st.integers(0, 999)
    ),
    max_size=100,
)


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize("level", [0, 1])
def test_random_interleavings(workers: int, level: int) -> None:
    @examples(30)
    @given(steps, st.sampled_from([1, 2**31 - 2, 2**32 - 3]))
    def run(script: list[Step], epoch: int) -> None:
        jobs = [AtpJob(workers, level, OTHER_RACK if level else 0, number) for number in (0, 1)]
        with switch(*jobs) as made:
            Interleaving(jobs, made, epoch).play(script)

    run()


class Interleaving:
    """Two jobs at a switch and at the model of one; the same must come out of both, and be held by both."""

    def __init__(self, jobs: list[AtpJob], made: OfflineSwitch, epoch: int) -> None:
        self.jobs, self.made = jobs, made
        self.model = ModelAtpSwitch(jobs[0].level, jobs[0].fan_in, min(bits(atp.rack_bit(RACK))))
        self.epochs = [epoch, epoch]
        self.toward = SERVER_PORT if jobs[0].level else UPLINK
        self.history: list[tuple[Step, int]] = []  # with the epoch they were of

    def play(self, script: list[Step]) -> None:
        for step in script:
            epoch = self.epochs[step.number]
            if step.kind == "restart":
                self.epochs[step.number] = (epoch + step.n % 3) % (2**32 - 1) + 1
            elif step.kind == "stranger":
                self.stranger(step, epoch)
            elif step.kind == "late" and self.history:
                self.take(*self.history[step.n % len(self.history)])
            else:
                self.history.append((step, epoch))
                self.take(step, epoch)
        for index in range(TABLE):
            held = self.model.table.get(index)
            assert self.made.register("aggregator.bitmap", index) == (sum(1 << i for i in held.seen) if held else 0)
            if held:
                assert self.made.register("aggregator.owner", index) == held.epoch << 32 | held.owner[0] << 24 | held.owner[1]

    def index(self, step: Step) -> int:
        return (7 * step.number + 5 * step.sequence) % TABLE

    def take(self, step: Step, epoch: int) -> None:
        job, index = self.jobs[step.number], self.index(step)
        if step.kind == "result":
            sent = self.made.send(self.toward, job.answer(step.sequence, vector(step.sequence), index, epoch=epoch))
            passes = self.model.result(epoch, (step.number, step.sequence), index)
            everybody = [*range(job.workers), *([UPLINK] if job.other_rack else [])]
            assert [port for port, _ in sent] == (everybody if passes else [])
            assert all(list(read(data).vector) == vector(step.sequence) for _, data in sent)
        elif step.kind == "release" and step.flag:
            ((back, data),) = self.made.send(self.toward, job.answer(0, [], index, kind=wire.KIND_RELEASE, epoch=epoch))
            self.model.release(epoch, step.number, index)
            assert (back, read(data).kind, read(data).epoch) == (self.toward, wire.KIND_RELEASED, epoch)
        elif step.kind == "query":
            self.query(step, epoch)
        elif step.kind == "status":
            self.status(step, epoch)
        else:
            self.gradient(step, epoch)

    def child(self, step: Step) -> tuple[int, frozenset[int], frozenset[int]]:
        """The number of who sends: of a worker or, beyond those, of the other rack, whole or (flag) in part; and its bits."""
        job = self.jobs[step.number]
        w = step.w % (job.workers + (job.other_rack > 0))
        if w >= job.workers:
            return w, frozenset({1} if step.flag else ()), bits(atp.rack_bit(RACK))
        return w, frozenset(() if job.level else {w}), frozenset({w}) if job.level else bits(atp.rack_bit(RACK))

    def send(self, step: Step, epoch: int, numbers: list[int], **fields: Any) -> list[tuple[int, bytes]]:
        """Send a child's packet."""
        job, index = self.jobs[step.number], self.index(step)
        w, who, _ = self.child(step)
        if w < job.workers:
            return self.made.send(w, job.gradient(w, step.sequence, numbers, index, epoch=epoch, **fields))
        part = word(who)
        return self.made.send(UPLINK, job.from_rack(step.sequence, numbers, index, bitmap0=part, epoch=epoch, **fields))

    def query(self, step: Step, epoch: int) -> None:
        asked, raw = step.n % 2, step.n % 5 == 0
        w, who, children = self.child(step)
        fields = {"kind": wire.KIND_QUERY, "asked": asked, "raw": int(raw), "next_index": step.n}
        sent = self.send(step, epoch, [], **fields)
        owner, index = (step.number, step.sequence), self.index(step)
        predicted = self.model.query(Query(epoch, owner, index, who, children, bool(asked), raw))
        if predicted is None:
            assert sent == []
            return
        ((port, data),) = sent
        h = read(data)
        assert (h.epoch, (h.job, h.sequence), h.index, h.next_index, h.raw) == (epoch, owner, index, step.n, raw)
        assert (bits(h.bitmap0), bits(h.bitmap1)) == (predicted.workers, predicted.children)
        if isinstance(predicted, Query):
            assert (port, h.kind, h.edge_switch, h.asked) == (self.toward, wire.KIND_QUERY, 1, asked)
            assert (Ether(data).dst, Ether(data)[IP].dst) == (SERVER.mac, SERVER.ip)
            return
        inside = w < self.jobs[step.number].workers
        station = worker_station(w) if inside else REMOTE
        assert (port, h.kind, h.resend, h.asked) == (w if inside else UPLINK, wire.KIND_STATUS, 1, 1)
        assert (Ether(data).dst, Ether(data)[IP].dst) == (station.mac, station.ip)
        assert (Ether(data).src, Ether(data)[IP].src) == (SERVER.mac, SERVER.ip)

    def status(self, step: Step, epoch: int) -> None:
        """A server's, or of the switch next to it, which has been given its addresses."""
        job, index, asked, raw = self.jobs[step.number], self.index(step), step.n % 2, step.n % 7 == 0
        w = step.w % job.workers
        workers, children = bits(step.n % 16), bits((0, 1, atp.rack_bit(RACK), atp.rack_bit(RACK) | 2, atp.rack_bit(5))[step.n % 5])
        fields = {"kind": wire.KIND_STATUS, "bitmap0": word(workers), "bitmap1": word(children), "next_index": step.n}
        marks = {"asked": asked, "raw": int(raw), "resend": int(step.flag), "ecn": int(step.n % 3 == 0), "epoch": epoch}
        sent = self.made.send(self.toward, job.answer(step.sequence, [], index, worker_station(w), **fields, **marks))
        predicted = self.model.status(
            Status(epoch, (step.number, step.sequence), index, workers, children, bool(asked), raw, step.n % 3 == 0, step.flag)
        )
        if predicted is None:
            assert sent == []
            return
        ((port, data),) = sent
        if isinstance(predicted, Status):
            h = read(data)
            assert (port, h.kind, h.bitmap0, h.bitmap1, h.asked) == (w, wire.KIND_STATUS, word(workers), word(children), asked)
            return
        assert port == self.toward and as_gradient(data) == predicted
        assert (Ether(data).dst, Ether(data)[IP].dst) == (SERVER.mac, SERVER.ip)
        assert (Ether(data).src, Ether(data)[IP].src) == (worker_station(w).mac, worker_station(w).ip)

    def gradient(self, step: Step, epoch: int) -> None:
        index, flag = self.index(step), step.flag
        resend = step.kind in ("resend", "again")
        w, who, children = self.child(step)
        outside = w >= self.jobs[step.number].workers
        exponent = (37 * w + step.sequence) % 256 if (step.sequence % 2 == 1) != (step.n % 11 == 0) else None
        numbers = [v ^ epoch & 0xFF for v in values(w, step.sequence)][-1 if exponent is not None else 0 :]
        asked = step.kind == "again" or (not resend and step.n % 4 == 0)
        marks = {"resend": int(resend), "asked": int(asked), "collision": int(outside and flag), "ecn": int(flag)}
        sent = self.send(step, epoch, numbers, exponent=exponent, **marks)
        owner = (step.number, step.sequence)
        predicted = self.model.gradient(
            Gradient(epoch, owner, index, who, children, tuple(numbers), resend, outside and flag, False, flag, asked, exponent)
        )
        if predicted is None:
            assert sent == []
            return
        ((out, data),) = sent
        assert out == self.toward
        assert as_gradient(data) == predicted
        assert (Ether(data).dst, Ether(data)[IP].dst) == (SERVER.mac, SERVER.ip)

    def stranger(self, step: Step, epoch: int) -> None:
        """A frame that claims to be a gradient, a result or a release, and must change nothing."""
        job, w = self.jobs[step.number], step.w % self.jobs[0].workers
        kinds = (wire.KIND_GRADIENT, wire.KIND_RESULT, wire.KIND_RELEASE, wire.KIND_RELEASED, wire.KIND_QUERY, wire.KIND_STATUS)
        kind = kinds[step.n % len(kinds)]
        numbers = vector(99) if kind in (wire.KIND_GRADIENT, wire.KIND_RESULT) else []
        later = epoch % (2**32 - 1) + 1
        data = job.gradient(w, step.sequence, numbers, self.index(step), kind=kind, epoch=later)
        packet = Ether(data)
        if kind not in (wire.KIND_GRADIENT, wire.KIND_QUERY):
            port = w  # servers and switches send these
        elif step.flag:
            port = w + 1 if w + 1 < job.workers else 5
        else:
            port = w
            if step.n % 3:
                packet[IP].flags = "MF"
            else:
                packet[IP].options = [IPOption(b"\x01" * 4)]
                del packet[IP].ihl, packet[IP].len
            del packet[IP].chksum
        assert self.made.send(port, bytes(packet)) == []
