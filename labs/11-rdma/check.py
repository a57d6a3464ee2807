"""Lab 11: writes of many packets to the switch, and what may be written to a worker's memory. The check plays the switch."""

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from inalab.testbed.lab.lab import Failure, Lab, Share, by_degrees
from inalab.testbed.lab.network import OVERHEAD, Link, Loss, Network, losing, losing_these
from inalab.testbed.lab.summing import Tensor, check_sums, tensors
from inalab.testbed.lab.workbench import Workbench

lab = Lab("RDMA", language="Python", hours=4, files=["nic.py"], given=["roce.py"])

FIRST, MIDDLE, LAST, ONLY = 0x26, 0x27, 0x29, 0x2B
NAMES = {FIRST: "FIRST", MIDDLE: "MIDDLE", LAST: "LAST", ONLY: "ONLY"}
MTU, PSNS = 256, 1 << 24
LINK, RTO = Link(rate=100.0, delay=20.0), 1500.0
FRAME = 14 + 20 + 8 + 12 + 4 + MTU  # bytes of a MIDDLE


@dataclass(frozen=True)
class Part:
    """A packet of a message, with the fields that its opcode has."""

    opcode: int
    pair: int
    psn: int
    payload: bytes
    reth: tuple[int, int, int] | None = None  # address, key, length
    immediate: int | None = None
    fixed: tuple[int, int] = (0, 0xFFFF)  # flags and partition

    def __str__(self) -> str:
        reth = "  address {:#x}  key {:#x}  length {}".format(*self.reth) if self.reth else ""
        immediate = "" if self.immediate is None else f"  immediate {self.immediate}"
        fixed = "" if self.fixed == (0, 0xFFFF) else "  flags {:#x}  partition {:#x}".format(*self.fixed)
        name = NAMES.get(self.opcode, f"opcode {self.opcode:#x}")
        return f"{name:<7} queue pair {self.pair:#x}  PSN {self.psn}{reth}{immediate}{fixed}  {len(self.payload)} bytes"


def icrc(datagram: bytes) -> bytes:
    """Of what is behind Ethernet, without the ICRC."""
    covered = bytearray(datagram)
    for at in (1, 8, 10, 11, 26, 27, 32):
        covered[at] = 0xFF
    return zlib.crc32(b"\xff" * 8 + covered).to_bytes(4, "little")


def read(frame: bytes) -> Part:
    """A packet that a worker sends. Failure if it is no RoCE packet; its ICRC is another task's."""
    if len(frame) < 58 or frame[12:14] != b"\x08\x00" or frame[36:38] != struct.pack(">H", 4791):
        raise Failure(f"a worker sends a packet that is not of RoCE v2: {frame[:40].hex(' ')} …")
    opcode, flags, partition, pair, psn = struct.unpack_from(">BBHII", frame, 42)
    at, reth, immediate = 54, None, None
    if opcode in (FIRST, ONLY) and len(frame) >= at + 20:
        reth, at = struct.unpack_from(">QII", frame, at), at + 16
    if opcode in (LAST, ONLY) and len(frame) >= at + 8:
        (immediate,), at = struct.unpack_from(">I", frame, at), at + 4
    return Part(opcode, pair, psn, frame[at:-4], reth, immediate, (flags, partition))


def write(part: Part, worker: int) -> bytes:
    """A packet from the switch to a worker, as bytes."""
    body = struct.pack(">BBHII", part.opcode, 0, 0xFFFF, part.pair, part.psn % PSNS)
    body += struct.pack(">QII", *part.reth) if part.reth else b""
    body += b"" if part.immediate is None else struct.pack(">I", part.immediate)
    body += part.payload
    ends = bytes([10, 0, 0, 254, 10, 0, 0, worker + 1])
    ip = struct.pack(">BBHHHBBH8s", 0x45, 0, 32 + len(body), 0, 0x4000, 64, 17, 0, ends)
    ip = ip[:10] + struct.pack(">H", ~(sum(struct.unpack(">10H", ip)) % 0xFFFF) & 0xFFFF) + ip[12:]
    datagram = ip + struct.pack(">HHHH", 49152, 4791, 12 + len(body), 0) + body
    return bytes([2, 0, 0, 0, 0, worker + 1, 2, 0, 0, 0, 0, 254, 8, 0]) + datagram + icrc(datagram)


@dataclass
class End:
    """What a worker is given: its queue pairs, its memory, and the key of it, drawn anew each time."""

    number: int
    tensor: Tensor
    packets: int = 4
    pairs: int = 2

    def __post_init__(self) -> None:
        draw = np.random.default_rng()
        numbers = [int(n) for n in draw.choice(1 << 20, 2 * self.pairs, replace=False) + 2]
        psns = [PSNS - int(n) for n in draw.integers(1, 12, self.pairs)]
        self.given = [{"own": numbers[2 * n], "switch": numbers[2 * n + 1], "psn": psn} for n, psn in enumerate(psns)]
        self.key, self.memory = int(draw.integers(1 << 16, 1 << 32)), int(draw.integers(1 << 20, 1 << 40)) * 4096

    def start(self) -> dict[str, Any]:
        return {
            "number": self.number, "tensor": self.tensor, "pairs": self.given, "packets": self.packets, "rto": RTO,
            "key": self.key, "memory": self.memory,
        }  # fmt: skip

    def octets(self, message: int, values: Tensor | None = None) -> bytes:
        size = self.packets * MTU
        return (self.tensor if values is None else values).astype(">i4").tobytes()[message * size : (message + 1) * size]

    def entry(self, message: int) -> int:
        """Of the pool: the first that a message has."""
        return (message // self.pairs % 2 * self.pairs + message % self.pairs) * self.packets

    def parts(self, message: int, psn: int, up: bool, values: Tensor | None = None) -> list[Part]:
        """The packets of a message, as they must be: to the switch, or with its sum from there."""
        octets, pair = self.octets(message, values), self.given[message % self.pairs]
        cut = [octets[at : at + MTU] for at in range(0, len(octets), MTU)]
        made = []
        for n, payload in enumerate(cut):
            opcode = (ONLY if len(cut) == 1 else FIRST) if n == 0 else LAST if n == len(cut) - 1 else MIDDLE
            key = self.entry(message) if up else self.key
            reth = (self.memory + message * self.packets * MTU, key, len(octets)) if n == 0 else None
            immediate = message if n == len(cut) - 1 else None
            made.append(Part(opcode, pair["switch" if up else "own"], (psn + n) % PSNS, payload, reth, immediate))
        return made

    def written(self, message: int, at: int, octets: bytes) -> Part:
        """A packet that writes to a place in the memory, on a message's queue pair and with its immediate."""
        return Part(ONLY, self.given[message % self.pairs]["own"], 9, octets, (self.memory + at, self.key, len(octets)), message)


class Desk:
    """The student's worker, and no network: what it sends, and what the check writes to its memory."""

    def __init__(self, bench: Workbench, end: End) -> None:
        self.end, self.host = end, bench.host("Worker", "the worker")
        self.sent: list[Part] = []
        self.frames: list[bytes] = []
        self.results: list[Any] = []
        self._take(self.host.start(0.0, **end.start()))

    def _take(self, calls: Sequence[tuple[str, Any]]) -> None:
        self.frames += [value for kind, value in calls if kind == "send"]
        self.sent = [read(frame) for frame in self.frames]
        self.results += [value for kind, value in calls if kind == "finish"]

    def give(self, *parts: Part) -> None:
        for part in parts:
            self.raw(write(part, self.end.number))

    def raw(self, frame: bytes) -> None:
        self._take(self.host.receive(0.0, frame))

    def expect(self, expected: Tensor, about: str) -> None:
        """The worker must have finished, with this in its memory."""
        if not self.results:
            raise Failure(f"{about}: all sums have been written, and the worker does not finish")
        try:
            check_sums({"the worker": self.results[0]}, [expected])
        except Failure as failure:
            raise Failure(f"{about}: {failure}", failure.trace) from None

    def unfinished(self, about: str) -> None:
        if self.results:
            raise Failure(f"{about}, and the worker finishes")


def tensor(length: int) -> Tensor:
    return tensors(1, length)[0]


@lab.task("the ICRC", points=10)
def check_code(bench: Workbench) -> None:
    draw = np.random.default_rng()
    frames = []
    for length in (0, 1, 64, 256):
        tos, ttl, number, pair, psn = (int(n) for n in draw.integers(1, 256, 5))
        ip = IP(src="10.0.7.1", dst="10.9.8.7", tos=tos, ttl=ttl, id=number << 8 | 7)
        bth = BTH(opcode=MIDDLE, dqpn=pair << 16 | 9, psn=psn << 16 | 3, fecn=1, becn=length % 2)
        udp = UDP(sport=5, dport=4791, chksum=length)
        frames.append(bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / ip / udp / bth / Raw(draw.bytes(length))))
    codes = bench.module().call_each("icrc", [[frame[:-4] + bytes(4)] for frame in frames])
    for frame, code in zip(frames, codes, strict=True):
        if code != frame[-4:]:
            shown = code.hex(" ") if isinstance(code, bytes) else repr(code)
            raise Failure(
                f"the ICRC of a packet with {len(frame) - 58} bytes of payload is {frame[-4:].hex(' ')}; icrc() returns {shown}",
                frame.hex(" "),
            )
    for sent in Desk(bench, End(0, tensor(1000))).frames:
        if sent[-4:] != icrc(sent[14:-4]):
            raise Failure("each packet must end with its ICRC", str(read(sent)))


@lab.task("a message is a write of many packets", points=20)
def messages(bench: Workbench) -> None:
    for length, packets, pairs in ((2048, 4, 2), (64 * 3 + 5, 4, 2), (50, 4, 3), (64 * 5, 1, 4), (64 * 40, 16, 3)):
        end = End(0, tensor(length), packets, pairs)
        desk = Desk(bench, end)
        count = -(-length // (64 * packets))
        due = [part for message in range(min(pairs, count)) for part in end.parts(message, end.given[message % pairs]["psn"], True)]
        expect_parts(desk.sent, due, f"{length} integers, messages of up to {packets} packets, {pairs} queue pairs")
        for message in range(count):
            desk.give(*end.parts(message, 77, False))
        psns = [pair["psn"] for pair in end.given]
        due = []
        for message in range(count):
            parts = end.parts(message, psns[message % pairs], True)
            due, psns[message % pairs] = due + parts, psns[message % pairs] + len(parts)
        expect_parts(desk.sent, due, f"{length} integers, and a sum for each message")


def expect_parts(sent: Sequence[Part], due: Sequence[Part], about: str) -> None:
    """These packets must be sent, in this order on each queue pair."""
    for pair in dict.fromkeys(part.pair for part in [*due, *sent]):
        ours, theirs = [p for p in due if p.pair == pair], [p for p in sent if p.pair == pair]
        for n, part in enumerate(ours):
            came = theirs[n] if n < len(theirs) else None
            if came != part:
                payload = ", with other bytes in it" if came and replace(came, payload=part.payload) == part else ""
                raise Failure(
                    f"{about}: packet {n} of queue pair {pair:#x} is not as it must be",
                    f"Expected: {part}\nCame:     {came or 'nothing'}{payload}",
                )
        if len(theirs) > len(ours):
            raise Failure(f"{about}: on queue pair {pair:#x} more is sent than {len(ours)} packets", f"Came: {theirs[len(ours)]}")


@lab.task("what is written to the worker's memory is there", points=15)
def memory(bench: Workbench) -> None:
    for length, packets in ((1024, 4), (64 * 7 + 9, 4), (30, 4), (64 * 3, 1), (64 * 50 + 1, 16)):
        end, sums = End(0, tensor(length), packets), tensor(length)
        desk, count = Desk(bench, end), -(-length // (64 * packets))
        for message in range(count):
            desk.unfinished("a sum is missing")
            desk.give(*end.parts(message, PSNS - 2 + 500 * message, False, sums))
        desk.expect(sums, f"{length} integers in messages of up to {packets} packets")
    end, sums = End(0, tensor(512), 4, 2), tensor(512)
    desk = Desk(bench, end)
    for one, other in zip(end.parts(1, 9, False, sums), end.parts(0, 70, False, sums), strict=True):
        desk.give(one, other)
    desk.expect(sums, "two messages arrive at the same time, on two queue pairs")
    end, sums = End(0, tensor(512), 4, 2), tensor(512)
    desk, at = Desk(bench, end), 4 * int(np.random.default_rng().integers(1, 192))
    desk.give(*end.parts(0, 9, False, np.roll(sums, at // 4 + 1)))
    for begin in range(0, 4 * MTU, MTU):
        desk.give(end.written(0, begin, end.octets(0, sums)[begin : begin + MTU]))
    desk.give(end.written(0, at, end.octets(0, sums)[at : at + MTU]))
    desk.give(*end.parts(1, 9, False, sums))
    desk.expect(sums, "a write goes to its address, also where the message of its immediate is complete")


@lab.task("a packet that is missing makes the rest of its message nothing", points=15)
def sequence(bench: Workbench) -> None:
    """Message 0 is complete. Then what others would write there, with gaps; then message 1 with a gap, and then without one."""
    end, sums, poison = End(0, tensor(512), 4, 2), tensor(512), tensor(512)
    desk = Desk(bench, end)
    good, bad = end.parts(0, 100, False, sums), end.parts(0, 104, False, poison)
    right = replace(bad[0], payload=good[0].payload)
    desk.give(*good)
    desk.give(right, bad[2], bad[3])
    desk.give(*bad[1:])
    desk.give(right, bad[3])
    desk.give(right, replace(bad[1], psn=bad[0].psn), bad[2], bad[3])
    for bit in range(24):
        shifted = [replace(part, psn=(part.psn ^ 1 << bit) % PSNS) for part in bad[1:]]
        desk.give(right, *shifted)
        desk.give(right, replace(bad[1], payload=good[1].payload), *shifted[1:])
    wanted = end.parts(1, PSNS - 1, False, sums)
    desk.give(wanted[0], *wanted[2:])
    desk.unfinished("a message lacks a packet")
    desk.give(wanted[0], wanted[2], *wanted[1:])
    desk.unfinished("a packet comes before its turn, and so the rest of its message is nothing")
    desk.give(*wanted[:2])
    desk.unfinished("a message is only half there")
    desk.give(*end.parts(1, PSNS - 3, False, sums))
    desk.expect(sums, "what follows a gap in its message must not be written")


def aimed(end: End, message: int, at: int, sums: Tensor, good: int = 0) -> list[Part]:
    """A write to where another message's sum is, and as if it were of this one. So many of its packets have the right bytes."""
    psn, poison = int(np.random.default_rng().integers(PSNS)), tensor(len(end.tensor))
    parts = [*end.parts(at, psn, False, sums)[:good], *end.parts(at, psn, False, poison)[good:]]
    parts[-1] = replace(parts[-1], immediate=message)
    return [replace(part, pair=end.given[message % end.pairs]["own"]) for part in parts]


def forbidden(end: End, message: int, sums: Tensor) -> list[tuple[str, list[Part]]]:
    """Writes that a worker must not take, although it awaits the message. They would change the sums of messages 0 and 1."""
    (first, *rest), (right, *others) = aimed(end, message, 0, sums), aimed(end, message, 1, sums, good=1)
    assert first.reth is not None and right.reth is not None
    (address, key, length), whole, own = first.reth, 4 * len(end.tensor), {pair["own"] for pair in end.given}
    pairs = [end.given[0]["switch"], *(0 if (other := first.pair ^ 1 << bit) in own else other for bit in range(24))]
    return [
        *(("with another key", [replace(first, reth=(address, key ^ 1 << bit, length)), *rest]) for bit in range(32)),
        ("with the switch's key", [replace(first, reth=(address, end.entry(1), length)), *rest]),
        *(("on a queue pair that there is not", [replace(part, pair=pair) for part in (first, *rest)]) for pair in pairs),
        ("below the memory", [replace(first, reth=(address - 512, key, length)), *rest]),
        ("beyond the memory", [replace(first, reth=(address + whole - 512, key, length)), *rest]),
        ("of more than the memory", [replace(first, reth=(address, key, whole + 4)), *rest]),
        ("of more packets than its length", [replace(right, reth=(right.reth[0], key, MTU)), *others]),
        ("of fewer packets than its length", [right, replace(others[-1], psn=(right.psn + 1) % PSNS)]),
    ]


def damaged(end: End, message: int, sums: Tensor) -> list[list[bytes]]:
    """Such writes as frames. A bit is wrong in one of them, which the ICRC covers or which is in it; those before it are right."""
    draw, made = np.random.default_rng(), []
    for at, which in enumerate((0, 1, 3)):
        for place in (19, *draw.integers(54, 58 + MTU, 4).tolist(), -4, -3, -2, -1):
            frames = [bytearray(write(part, end.number)) for part in aimed(end, message, at, sums, good=which)]
            frames[which][place] ^= 1 << int(draw.integers(8))
            made.append([bytes(frame) for frame in frames])
    return made


@lab.task("nobody writes where nothing is allowed", points=15)
def protection(bench: Workbench) -> None:
    """Such writes come in an order that is drawn, and messages that are as they must be among them."""
    draw = np.random.default_rng()
    count = int(draw.integers(8, 12))
    end, sums = End(0, tensor(256 * count), 4, 2), tensor(256 * count)
    desk, turns = Desk(bench, end), sorted(draw.random(count - 6).tolist())
    for message in range(3):
        desk.give(*end.parts(message, int(draw.integers(PSNS)), False, sums))
    cases = len(forbidden(end, 3, sums)) + len(damaged(end, 3, sums))
    message = 3
    for done, case in enumerate(draw.permutation(cases).tolist()):
        while turns and turns[0] < done / cases:
            turns.pop(0)
            desk.give(*end.parts(message, int(draw.integers(PSNS)), False, sums))
            message += 1
        bad = [(f"a write {about} is none", [write(part, 0) for part in parts]) for about, parts in forbidden(end, message, sums)]
        bad += [("a message with a packet whose ICRC is wrong is none", frames) for frames in damaged(end, message, sums)]
        about, frames = bad[case]
        sent = len(desk.sent)
        for frame in frames:
            desk.raw(frame)
        if len(desk.sent) != sent:
            raise Failure(f"{about}, and the worker sends the next message")
    for late in range(message, count):
        desk.give(*end.parts(late, int(draw.integers(PSNS)), False, sums))
    desk.expect(sums, "writes with wrong keys, addresses, lengths, queue pairs and ICRCs must change nothing")


# --- the switch


@dataclass
class Write:
    """What a worker has last written to the entries of one message: where its sum goes, and the first PSN of that."""

    reth: tuple[int, int, int]
    psn: int
    immediate: int = 0


class Switch:
    """A switch that sums writes: an entry for each packet of a message, with SwitchML's bitmaps and shadow copies."""

    def __init__(self, ends: Sequence[End]) -> None:
        self.ends, self.packets, self.half = ends, ends[0].packets, ends[0].packets * ends[0].pairs
        self.pairs = {pair["switch"]: (end, n) for end in ends for n, pair in enumerate(end.given)}
        self.expected: dict[int, tuple[int, int]] = {}  # by queue pair: the PSN and the entry of the next packet
        self.psns: dict[tuple[int, int], int] = {}  # by worker and queue pair: the first of the next result
        self.writes: dict[tuple[int, int], Write] = {}  # by worker, and first entry
        self.sums: dict[int, Any] = {}
        self.seen: dict[int, set[int]] = {entry: set() for entry in range(2 * self.half)}
        self.lacking: dict[int, set[int]] = {entry: set() for entry in range(2 * self.half)}

    def send(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        part = read(frame)
        if part.pair not in self.pairs:
            raise Failure("a worker sends to a queue pair that there is not", str(part))
        end, pair = self.pairs[part.pair]
        psn, entry = self.expected.pop(part.pair, (None, 0))
        if part.reth is not None:
            entry = self._begin(end, pair, part)
        elif part.psn % PSNS != psn:
            return []  # out of sequence
        if part.immediate is None:
            self.expected[part.pair] = ((part.psn + 1) % PSNS, entry + 1)
        else:
            self.writes[end.number, entry // self.packets * self.packets].immediate = part.immediate
        return self._sum(end, np.frombuffer(part.payload, ">i4").astype(np.int32), entry)

    def _begin(self, end: End, pair: int, part: Part) -> int:
        assert part.reth is not None
        _, entry, length = part.reth
        if entry not in (pair * self.packets, self.half + pair * self.packets) or not 0 < length <= self.packets * MTU:
            raise Failure("a write has the key of another queue pair's entries, or more packets than there are", str(part))
        known = self.writes.get((end.number, entry))
        if known is None or known.reth != part.reth:  # else it is sent again
            psn = self.psns.get((end.number, pair), PSNS - 3)
            self.psns[end.number, pair] = psn + -(-length // MTU)
            self.writes[end.number, entry] = Write(part.reth, psn)
        return entry

    def _sum(self, end: End, values: Tensor, entry: int) -> list[tuple[int, bytes]]:
        worker, lacking = end.number, self.lacking[entry]
        if worker in self.seen[entry]:
            return [] if lacking else [self._result(end, entry)]
        self.seen[entry].add(worker)
        self.seen[(entry + self.half) % (2 * self.half)].discard(worker)
        if lacking and len(values) != len(self.sums[entry]):
            raise Failure(f"worker {worker} writes {len(values)} integers where another one writes {len(self.sums[entry])}")
        self.sums[entry] = self.sums[entry] + values if lacking else values
        lacking.update(() if lacking else (one.number for one in self.ends))
        lacking.discard(worker)
        return [] if lacking else [self._result(one, entry) for one in self.ends]

    def _result(self, end: End, entry: int) -> tuple[int, bytes]:
        first = entry // self.packets * self.packets
        write_of, at, own = self.writes[end.number, first], entry - first, end.given[first // self.packets % end.pairs]["own"]
        address, _, length = write_of.reth
        last = at == -(-length // MTU) - 1
        opcode = (ONLY if last else FIRST) if at == 0 else LAST if last else MIDDLE
        reth = None if at else (address, end.key, length)
        part = Part(
            opcode, own, write_of.psn + at, self.sums[entry].astype(">i4").tobytes(), reth, write_of.immediate if last else None
        )
        return end.number + 1, write(part, end.number)


def run(bench: Workbench, parts: Sequence[Tensor], packets: int = 4, pairs: int = 4, loss: Loss | None = None) -> Network:
    """The student's workers sum tensors; each must have the sum in its memory."""
    ends = [End(number, part, packets, pairs) for number, part in enumerate(parts)]
    network = Network(loss=loss)
    network.star("s1", Switch(ends), {f"h{end.number + 1}": bench.host("Worker", f"h{end.number + 1}") for end in ends}, LINK)
    try:
        network.run({f"h{end.number + 1}": end.start() for end in ends}, until=5e6)
        check_sums(network.results, parts)
    except Failure as failure:
        packets_shown = [
            f"{p.time:>10.1f} µs  {p.source} → {p.target}  {read(p.data)}{'  LOST' if p.lost else ''}" for p in network.recent
        ]
        raise Failure(str(failure), "\n".join([failure.trace, "The last packets on the links:", *packets_shown])) from None
    return network


@lab.task("workers sum", points=10)
def sums(bench: Workbench) -> None:
    for workers, length, packets, pairs in ((1, 64 * 9, 4, 2), (3, 64 * 40 + 7, 4, 4), (2, 64 * 33, 16, 2), (4, 64 * 20, 1, 8)):
        try:
            run(bench, tensors(workers, length), packets, pairs)
        except Failure as failure:
            raise Failure(
                f"{workers} workers, messages of {packets} packets, {pairs} queue pairs: {failure}", failure.trace
            ) from None


PACKETS = 240
FULL = {0.0: 1.3, 0.01: 5.0, 0.05: 18.0}  # times the bound, by loss, up to which there are full points


def bound() -> float:
    """Microseconds that a link takes for a tensor of PACKETS packets without loss."""
    return 8 * PACKETS * (FRAME + OVERHEAD) / LINK.rate + 2 * LINK.delay


@lab.task("a message that is lost is sent again", points=15)
def again(bench: Workbench) -> Share:
    for host in ("h1", "h2"):
        for source, target in ((host, "s1"), ("s1", host)):
            for number in range(6):
                try:
                    run(bench, tensors(2, 64 * 6), 3, 1, losing_these((source, target, number)))
                except Failure as failure:
                    raise Failure(f"packet {number} from {source} to {target} is lost: {failure}", failure.trace) from None
    networks: Mapping[float, Network] = {}
    try:
        networks = {loss: run(bench, tensors(3, 64 * PACKETS), loss=losing(loss, 3) if loss else None) for loss in FULL}
    except Failure as failure:
        raise Failure(f"packets are lost at random: {failure}", failure.trace) from None
    sent = networks[0.0].directions["h1", 0].packets
    if sent > PACKETS:
        raise Failure(f"no packet is lost, and a worker sends {sent} for a tensor of {PACKETS}: nothing must be sent again")
    costs = {loss: network.now / bound() for loss, network in networks.items()}
    share = 0.4 + sum(0.2 * by_degrees(costs[loss], FULL[loss], 2 * FULL[loss]) for loss in FULL)
    wording = ", ".join(f"{costs[loss]:.1f} at {loss:.0%}" for loss in FULL)
    return Share(share, f"times the link's bound: {wording}; full points up to {', '.join(f'{most:g}' for most in FULL.values())}")
