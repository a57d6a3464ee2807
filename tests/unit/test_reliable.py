"""hosts/roce's reliable connections: what is sent arrives once and in order, whatever the network does; and who is refused is told."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.roce import AETH, BTH, CNPPadding
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from inalab.hosts.cores import enum, ffi, library
from inalab.hosts.roce.settings import STUBBORN, QueuePairs
from inalab.hosts.roce.wire import OPCODES
from tests.properties import examples
from tests.roce import icrc
from tests.unit.test_roce import A, B, number

NAMES = {value: name for name, value in OPCODES.items()}
ENDS, SIZES, SYNDROMES = enum("rc_end"), enum("rc_sizes"), enum("roce_syndrome")
PORT, PORTS = 4791, (50_000, 50_001)
FIRST = 2**24 - 3  # of both ends' packets: the numbers wrap
KEY, BEGIN, MEMORY = 77, 0x5000, 8192  # of B's region
MOST = SIZES["RC_MESSAGE"]
SELECTIVE = QueuePairs((10.0, 10.0), selective=True)
NEVER = 1e6  # seconds
GO_BACK_N = QueuePairs((10.0, 10.0))
Way = Callable[
    [int, bytes], list[tuple[float, bytes, bool]]
]  # by a packet's number on it: its copies, when each comes, and if marked


def at_once(_: int, packet: bytes) -> list[tuple[float, bytes, bool]]:
    return [(0.001, packet, False)]


class Pair:
    """Two ends of a connection, the clock, and a network between them that does what `way` says."""

    def __init__(self, settings: QueuePairs, way: Way = at_once, patience: float = 1.0) -> None:
        self.now, self.way, self.sent = 0.0, way, list[tuple[float, int, bytes]]()
        self.coming: list[tuple[float, int, int, bytes, bool]] = []
        self.ends = [
            ffi.gc(library().adapter_new(1, 17 + end, settings.on(10.0, patience)), library().adapter_free) for end in (0, 1)
        ]
        addresses = number(A.ip), number(B.ip)
        for end in (0, 1):
            there = 1 - end
            used = addresses[end], addresses[there], PORTS[end], PORTS[there], 17 + there, FIRST, FIRST, 0.0
            library().adapter_connect(self.ends[end], 0, *used)
        self.q = [end.pairs[0] for end in self.ends]
        self.memory = np.full(3 * MEMORY, 0xEE, np.uint8)
        region, self.ends[1].regions_count = self.ends[1].regions[0], 1
        region.address, region.length, region.key = BEGIN, MEMORY, KEY
        region.memory = ffi.cast("uint8_t *", self.memory.ctypes.data + MEMORY)
        self.came = [bytearray(), bytearray()]
        self.reading = True

    def post(self, payload: bytes, end: int = 0, write: tuple[int, int] | None = None, immediate: int | None = None) -> bool:
        """Send, or write to an address with a key."""
        core, (address, key) = self.ends[end], write or (0, 0)
        how = int(write is not None), payload, len(payload), address, key, immediate is not None, immediate or 0
        return bool(library().rc_post(core.pairs, ffi.addressof(core.settings), *how))

    def run(self, until: float = NEVER) -> None:
        """Until nothing more happens, or it is so late."""
        packet = ffi.new("uint8_t[]", SIZES["RC_PACKET"])
        while True:
            for end, core in enumerate(self.ends):
                library().adapter_expired(core, self.now)
                while (leaving := library().adapter_next(core, packet, self.now)).length:
                    made = bytes(ffi.buffer(packet, leaving.length))
                    self.sent.append((self.now, end, made))
                    for after, copy, marked in self.way(len(self.sent), made):
                        heapq.heappush(self.coming, (self.now + after, len(self.sent), 1 - end, copy, marked))
                if self.reading:
                    self.take(end)
            due = min([*(library().adapter_due(core, self.now) for core in self.ends), *(entry[0] for entry in self.coming[:1])])
            if due > until:
                self.now = until if until < NEVER else self.now
                return
            self.now = max(self.now, due)
            while self.coming and self.coming[0][0] <= self.now:
                _, _, end, copy, marked = heapq.heappop(self.coming)
                self.arrive(end, copy, marked)

    def arrive(self, end: int, packet: bytes, marked: bool = False, identification: int = 0) -> None:
        library().adapter_received(self.ends[end], packet, len(packet), identification, marked, self.now)

    def take(self, end: int) -> None:
        into = ffi.new("uint8_t[]", MOST)
        while size := library().rc_take(self.ends[end].pairs, into, MOST):
            self.came[end] += bytes(ffi.buffer(into, size))

    def opcodes(self, end: int = 0) -> list[str]:
        return [NAMES[packet[0]] for _, whose, packet in self.sent if whose == end]

    def syndromes(self, end: int = 1) -> list[int]:
        return [packet[12] for _, whose, packet in self.sent if whose == end and packet[0] == OPCODES["RC_ACKNOWLEDGE"]]


def framed(packet: bytes, end: int = 0, identification: int = 0) -> bytes:
    source, destination = (A, B) if end == 0 else (B, A)
    ip = IP(src=source.ip, dst=destination.ip, id=identification, flags="DF")
    return bytes(Ether(src=source.mac, dst=destination.mac) / ip / UDP(sport=PORTS[end], dport=PORT, chksum=0) / Raw(packet))


def sealed(packet: bytes, end: int = 0, identification: int = 0) -> bytes:
    """With the ICRC that it should have."""
    return packet[:-4] + icrc(framed(packet, end, identification)[14:]).to_bytes(4, "little")


def text(size: int, seed: int = 0) -> bytes:
    return random.Random(size + seed).randbytes(size)


def test_a_message_is_cut_into_packets_and_acknowledged() -> None:
    pair, payload = Pair(GO_BACK_N), text(2500)
    pair.post(payload)
    pair.run()
    assert pair.came[1] == payload
    assert pair.opcodes() == ["RC_SEND_FIRST", "RC_SEND_MIDDLE", "RC_SEND_LAST"]
    sent = [Ether(framed(packet))[BTH] for _, end, packet in pair.sent if end == 0]
    assert [bth.psn for bth in sent] == [FIRST, FIRST + 1, FIRST + 2]
    assert [bth.ackreq for bth in sent] == [0, 0, 1]
    assert [bth.padcount for bth in sent] == [0, 0, 2500 % 1024 * -1 % 4]
    (answer,) = [Ether(framed(packet, 1)) for _, end, packet in pair.sent if end == 1]
    assert (answer[BTH].psn, answer[BTH].dqpn, answer[AETH].syndrome, answer[AETH].msn) == (FIRST + 2, 17, 0x1F, 1)
    assert (pair.q[0].acknowledged, pair.q[0].requests_count, pair.q[0].counters.messages_sent) == (3, 0, 1)


def test_the_icrc_is_scapys() -> None:
    pair = Pair(GO_BACK_N)
    pair.post(text(64))
    pair.run()
    for _, end, packet in pair.sent:
        frame = Ether(framed(packet, end))
        ip = IP(src=frame[IP].src, dst=frame[IP].dst, id=0, flags="DF", tos=3)
        bth = frame[BTH].copy()
        bth.icrc = None
        built = bytes(Ether() / ip / UDP(sport=PORTS[end], dport=PORT, chksum=0) / bth)
        assert built[-4:] == packet[-4:]


def test_the_icrc_covers_the_identification_of_ipv4() -> None:
    """Which others number, as Linux's Soft-RoCE does, and our ends do not."""
    pair = Pair(GO_BACK_N, lambda n, packet: [])
    pair.post(b"text")
    pair.run(0.01)
    made = sealed(pair.sent[0][2], identification=0x1234)
    for identification in (0, 0x3412):
        pair.arrive(1, made, identification=identification)
    assert (pair.ends[1].dropped.icrc, pair.q[1].came) == (2, 0)
    pair.arrive(1, made, identification=0x1234)
    pair.take(1)
    assert pair.came[1] == b"text"


@pytest.mark.parametrize(
    ("size", "immediate", "opcodes"),
    [
        (100, None, ["RC_WRITE_ONLY"]),
        (100, 5, ["RC_WRITE_ONLY_IMMEDIATE"]),
        (3000, None, ["RC_WRITE_FIRST", "RC_WRITE_MIDDLE", "RC_WRITE_LAST"]),
        (2000, 5, ["RC_WRITE_FIRST", "RC_WRITE_LAST_IMMEDIATE"]),
        (0, None, ["RC_WRITE_ONLY"]),
    ],
)
def test_a_write_goes_where_its_address_says(size: int, immediate: int | None, opcodes: list[str]) -> None:
    pair, payload = Pair(GO_BACK_N), text(size)
    pair.post(payload, write=(BEGIN + 12, KEY), immediate=immediate)
    pair.run()
    assert pair.opcodes() == opcodes
    assert pair.memory[MEMORY + 12 : MEMORY + 12 + size].tobytes() == payload
    assert set(pair.memory[: MEMORY + 12].tolist() + pair.memory[MEMORY + 12 + size :].tolist()) == {0xEE}
    assert pair.q[1].counters.messages_received == (immediate is not None)
    assert pair.q[0].counters.messages_sent == 1


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        ((BEGIN, KEY + 1), "key"),
        ((BEGIN - 4, KEY), "bounds"),
        ((BEGIN + MEMORY - 1020, KEY), "bounds"),
        ((2**64 - 8, KEY), "bounds"),
    ],
)
def test_a_write_elsewhere_ends_the_connection(write: tuple[int, int], reason: str) -> None:
    """With a negative acknowledgment (section 9.7.5.2.8), and nothing written."""
    pair = Pair(GO_BACK_N)
    pair.post(text(1024), write=write)
    pair.run()
    assert set(pair.memory.tolist()) == {0xEE}
    assert pair.syndromes()[0] == SYNDROMES["NEGATIVE_ACCESS"]
    assert pair.q[0].ended == ENDS["RC_ACCESS"]
    assert getattr(pair.ends[1].dropped, reason) >= 1
    assert not pair.post(b"more")


@pytest.mark.parametrize("settings", [GO_BACK_N, SELECTIVE])
@pytest.mark.parametrize("apart", [0.0, 0.001])  # seconds
@pytest.mark.parametrize("lost", [1, 3, 5])
def test_a_lost_packet_is_told_of_and_sent_again(settings: QueuePairs, lost: int, apart: float) -> None:
    """Go-back-N sends all from there on again, which have come already; selective repeat only that packet."""
    pair = Pair(settings, lambda n, packet: [] if n == lost else [(0.001 + apart * min(n, 8), packet, False)])
    payload = text(8 * 1024)
    pair.post(payload)
    pair.run()
    assert pair.came[1] == payload
    assert pair.syndromes()[0] == SYNDROMES["NEGATIVE_SEQUENCE"]
    assert pair.q[0].counters.again == (1 if settings.selective else 8 - lost + 1)
    assert pair.q[0].counters.timeouts == 0


@pytest.mark.parametrize("settings", [GO_BACK_N, SELECTIVE])
def test_what_is_lost_at_the_end_is_sent_again_when_a_timer_expires(settings: QueuePairs) -> None:
    pair = Pair(settings, lambda n, packet: [] if n == 8 else at_once(n, packet))
    pair.post(text(8 * 1024))
    pair.run()
    assert pair.came[1] == text(8 * 1024)
    assert (pair.q[0].counters.timeouts, pair.syndromes()) == (1, [SYNDROMES["POSITIVE"]])
    assert pair.now > settings.timeout()


@pytest.mark.parametrize("settings", [GO_BACK_N, SELECTIVE])
def test_who_hears_nothing_gives_up(settings: QueuePairs) -> None:
    pair = Pair(settings, lambda n, packet: [], patience=1.0)
    pair.post(b"lost")
    pair.run()
    assert pair.q[0].ended == ENDS["RC_RETRIES"]
    assert pair.q[0].counters.timeouts == -(-STUBBORN // settings.timeout()) + 1


@pytest.mark.parametrize("settings", [GO_BACK_N, SELECTIVE])
def test_who_does_not_read_holds_up_the_sender_and_nothing_is_lost(settings: QueuePairs) -> None:
    """The other end is not ready (RNR), and says when it may be."""
    pair, payload = Pair(settings), text(SIZES["RC_BUFFER"] + 3 * MOST)
    left = payload
    pair.reading = False
    while left and pair.post(left[:MOST]):
        left = left[MOST:]
    pair.run(0.2)
    while left and pair.post(left[:MOST]):
        left = left[MOST:]
    assert not left
    pair.run(0.4)
    assert SYNDROMES["NOT_READY"] | 14 in pair.syndromes()
    assert not pair.q[0].ended
    pair.reading = True
    pair.run()
    assert pair.came[1] == payload


@pytest.mark.parametrize("settings", [GO_BACK_N, SELECTIVE])
@pytest.mark.parametrize("seed", range(8))
def test_a_slow_reader_and_losses_hold_up_and_end_nothing(settings: QueuePairs, seed: int) -> None:
    """Also where what is lost says that the other end is not ready."""
    rng = random.Random(seed)
    pair, payload = Pair(settings, lambda n, packet: [] if rng.random() < 0.08 else at_once(n, packet)), text(900_000, seed)
    left = payload
    while left:
        while left and pair.post(left[:MOST]):
            left = left[MOST:]
        pair.reading = rng.random() < 0.2
        pair.run(pair.now + 0.05)
    pair.reading = True
    pair.run()
    assert pair.came[1] == payload
    assert not pair.q[0].ended


def test_while_the_other_end_is_not_ready_packets_go_one_at_a_time() -> None:
    pair = Pair(GO_BACK_N)
    pair.reading = False
    while pair.post(text(MOST)):
        pair.run(pair.now + 0.1)
    before = pair.q[0].counters.packets
    pair.run(pair.now + 1.0)
    refused = pair.syndromes().count(SYNDROMES["NOT_READY"] | 14)
    assert refused > 100
    assert pair.q[0].counters.packets - before <= refused + 1
    assert pair.q[0].counters.timeouts == 0


def test_nothing_is_waited_for_where_nothing_was_sent() -> None:
    """Not ready for what was never sent."""
    pair = Pair(GO_BACK_N)
    pair.post(b"text")
    pair.run()
    ack = bytes([OPCODES["RC_ACKNOWLEDGE"], 0, 0xFF, 0xFF, 0, 0, 0, 17, 0, *(FIRST + 1).to_bytes(3, "big"), 0x2E, 0, 0, 1])
    pair.arrive(0, sealed(ack + bytes(4), 1))
    pair.run()
    assert (pair.q[0].ended, pair.q[0].counters.timeouts) == (ENDS["RC_OPEN"], 0)


FATES = ["come", "come", "come", "come", "lose", "twice", "late", "broken", "marked"]


@pytest.mark.parametrize("settings", [GO_BACK_N, SELECTIVE])
@given(
    st.lists(st.tuples(st.sampled_from(FATES), st.integers(1, 60)), max_size=60),
    st.lists(st.integers(1, 9000), min_size=1, max_size=12),
    st.lists(st.integers(1, 9000), max_size=12),
)
@examples(150)
def test_all_comes_once_and_in_order_in_both_directions(
    settings: QueuePairs, script: list[tuple[str, int]], there: list[int], back: list[int]
) -> None:
    """Whatever the network does to the first packets."""

    def way(n: int, packet: bytes) -> list[tuple[float, bytes, bool]]:
        fate, amount = script[n] if n < len(script) else ("come", 0)
        broken = bytearray(packet)
        broken[amount % len(packet)] ^= 1 << amount % 8
        return {
            "lose": [],
            "twice": [(0.001, packet, False), (0.001 * amount, packet, False)],
            "late": [(0.001 * amount, packet, False)],
            "broken": [(0.001, bytes(broken), False)],
            "marked": [(0.001, packet, True)],
        }.get(fate, [(0.001, packet, False)])

    pair = Pair(settings, way, patience=100.0)
    for end, sizes in enumerate((there, back)):
        for i, size in enumerate(sizes):
            assert pair.post(text(size, i), end)
    pair.run()
    for end, sizes in enumerate((there, back)):
        assert pair.came[1 - end] == b"".join(text(size, i) for i, size in enumerate(sizes))
        assert pair.q[end].acknowledged == pair.q[end].posted
        assert not pair.q[end].ended


def test_marks_slow_the_sender_and_it_comes_back() -> None:
    """A notification for the packets of a while (annex A17.9), the rate halved at first, and all of it again in the end."""
    pair = Pair(GO_BACK_N, lambda n, packet: [(0.001, packet, len(pair.sent) < 100)])
    rates, whole = list[float](), pair.ends[0].settings.rate
    for i in range(80):
        while not pair.post(text(MOST, i)):
            pair.run(pair.now + 0.01)
        pair.run(pair.now + 0.01)
        rates.append(pair.q[0].rate.current / whole)
    pair.run()
    assert pair.came[1] == b"".join(text(MOST, i) for i in range(80))
    assert min(rates) < 0.5
    assert rates[-1] == 1
    notified = [(at, packet) for at, end, packet in pair.sent if end == 1 and packet[0] == OPCODES["CONGESTION_NOTIFICATION"]]
    assert 2 <= len(notified) < pair.q[1].counters.marked / 2
    assert all(b - a >= 0.99 * pair.ends[0].settings.unit for (a, _), (b, _) in itertools.pairwise(notified))
    frame = Ether(framed(notified[0][1], 1))
    assert (frame[BTH].becn, frame[BTH].dqpn, len(notified[0][1])) == (1, 17, 12 + 16 + 4)
    assert frame.haslayer(CNPPadding)


def test_without_dcqcn_marks_change_nothing() -> None:
    pair = Pair(QueuePairs((10.0, 10.0), dcqcn=False), lambda n, packet: [(0.001, packet, True)])
    pair.post(text(MOST))
    pair.run()
    assert "CONGESTION_NOTIFICATION" not in pair.opcodes(1)
    assert pair.q[0].rate.current == pair.ends[0].settings.rate


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({0: OPCODES["UC_WRITE_FIRST"]}, "malformed"),
        ({0: OPCODES["RC_SEND_MIDDLE"]}, "malformed"),
        ({0: OPCODES["RC_SEND_FIRST"]}, "malformed"),  # which is full
        ({1: 1}, "malformed"),
        ({2: 0}, "malformed"),
        ({7: 99}, "queue_pair"),
        ({5: 1}, "queue_pair"),
        ({11: 255}, "sequence"),
    ],
)
def test_malformed_packets_are_dropped_and_counted(change: dict[int, int], reason: str) -> None:
    pair = Pair(GO_BACK_N, lambda n, packet: [])
    pair.post(b"text")
    pair.run(0.01)
    made = bytearray(pair.sent[0][2])
    for place, value in change.items():
        made[place] = value
    pair.arrive(1, bytes(made))
    assert {name: getattr(pair.ends[1].dropped, name) for name, _ in ffi.typeof("RoceDropped").fields}[
        "icrc" if reason != "queue_pair" and change.keys() - {1, 2} else reason
    ] == 1
    pair = Pair(GO_BACK_N)
    pair.arrive(1, sealed(bytes(made)))
    assert getattr(pair.ends[1].dropped, reason) == 1
    pair.take(1)
    assert not pair.came[1]


@pytest.mark.parametrize("settings", [GO_BACK_N, SELECTIVE])
def test_an_acknowledgment_of_what_was_never_sent_is_ignored(settings: QueuePairs) -> None:
    pair = Pair(settings, lambda n, packet: [])
    pair.post(text(3000))
    pair.run(0.01)
    for psn in (FIRST + 4, FIRST + 900, FIRST - 2, FIRST + 2**23):
        for syndrome in (SYNDROMES["POSITIVE"], SYNDROMES["NEGATIVE_SEQUENCE"], SYNDROMES["NOT_READY"]):
            ack = bytes(
                [OPCODES["RC_ACKNOWLEDGE"], 0, 0xFF, 0xFF, 0, 0, 0, 17, 0, *(psn % 2**24).to_bytes(3, "big"), syndrome, 0, 0, 9]
            )
            pair.arrive(0, sealed(ack + bytes(4), 1))
    q = pair.q[0]
    assert (q.acknowledged, q.next, q.requests_count, q.ended, q.ready_at) == (0, 3, 1, ENDS["RC_OPEN"], 0)


@pytest.mark.parametrize("settings", [GO_BACK_N, SELECTIVE])
def test_garbage_writes_nothing_anywhere(settings: QueuePairs) -> None:
    """Good packets with a few bytes changed, and their ICRC right, to both ends."""
    rng: Any = random.Random(2)
    source = Pair(settings, lambda n, packet: [*at_once(n, packet)] if n % 9 else [])
    for i in range(6):
        source.post(text(3000, i), i % 2, (BEGIN, KEY) if i in (2, 4) else None, 7 if i > 3 else None)
    source.run()
    good = [(end, packet) for _, end, packet in source.sent]
    for turn in range(300):
        pair = Pair(settings, at_once)
        pair.post(text(5000))
        for _ in range(40):
            end, packet = rng.choice(good)
            made = bytearray(packet)
            for _ in range(rng.randrange(0, 4)):
                made[rng.randrange(min(len(made), 36))] = rng.choice([0, 1, 4, 255, rng.randrange(256)])
            del made[rng.choice([len(made), len(made), len(made) // 4 * 2, rng.randrange(0, 1100)]) :]
            if len(made) >= 16 and turn % 8:
                made[-4:] = icrc(framed(bytes(made), end)[14:]).to_bytes(4, "little")
            pair.arrive(1 - end, bytes(made))
        pair.run(pair.now + 0.05)
        assert {*pair.memory[:MEMORY].tolist(), *pair.memory[2 * MEMORY :].tolist()} == {0xEE}
        for q in pair.q:
            assert 0 <= q.taken <= q.came <= q.written <= q.taken + SIZES["RC_BUFFER"]
            assert q.acknowledged <= q.next <= q.farthest <= q.posted or q.next <= q.farthest
