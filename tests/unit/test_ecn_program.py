"""p4/include/ecn.p4: packets are marked as a link's queue would be deep, by its rate and what was sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from inalab.switches import ecn
from inalab.switches.embedded.build import build
from inalab.switches.embedded.offline import LoadedSwitch
from inalab.switches.forwarding import forwarding
from tests.packets import worker_station

PROGRAMS = [Path(f"p4/{name}.p4") for name in ("switchml", "switchml_rdma", "atp")]
ONE, OTHER = worker_station(0), worker_station(1)
PACKET = 1000  # bytes on the link
MILLISECOND = 1_000_000  # nanoseconds


def packet(tos: int = 2) -> bytes:
    ip = IP(src=ONE.ip, dst=OTHER.ip, tos=tos)
    return bytes(Ether(src=ONE.mac, dst=OTHER.mac) / ip / UDP(dport=9, chksum=0) / bytes(PACKET - 24 - 42))


@contextmanager
def switch(program: Path, marking: list[str]) -> Iterator[LoadedSwitch]:
    made = LoadedSwitch(build(program, {"K": "64"}, library=True), [0, 1], 1)
    made.at(0)
    for line in [*forwarding(range(2), {ONE.mac: 0, OTHER.mac: 1}), *marking]:
        made.command(line)
    yield made


def marks(made: LoadedSwitch, moments: list[int], tos: int = 2) -> list[bool]:
    """Of packets sent at these nanoseconds; all arrive, with right checksums."""
    found = []
    for moment in moments:
        ((port, frame),), _ = made.at(moment, (0, packet(tos)))
        ip = Ether(frame)[IP]
        checked = ip.copy()
        del checked.chksum
        assert (port, IP(bytes(checked)).chksum) == (1, ip.chksum)
        assert ip.tos in (tos, tos | 3)
        found.append(ip.tos & 3 == 3)
    return found


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_packets_that_come_faster_than_the_link_carries_them_are_marked(program: Path) -> None:
    """At 8 Mbit/s a packet of 1,000 bytes takes a millisecond."""
    marking = ecn.marking(1, 8.0, PACKET)
    with switch(program, marking) as made:
        assert not any(marks(made, [n * MILLISECOND for n in range(1, 300)]))
        burst = marks(made, [300 * MILLISECOND] * (2 * ecn.DEEP))
        assert not any(burst[: ecn.SHALLOW + 1])
        assert all(burst[ecn.DEEP :])
        assert 0 < sum(burst[ecn.SHALLOW : ecn.DEEP]) < (ecn.DEEP - ecn.SHALLOW) / 2  # by chance
        assert ecn.marked(made) == sum(burst)
        later = 300 + 2 * ecn.DEEP - ecn.SHALLOW
        assert not any(marks(made, [later * MILLISECOND] * 1))  # the queue has drained
        assert not any(marks(made, [(later + (n << 20)) * MILLISECOND for n in range(1, 4)]))


@pytest.mark.parametrize("tos", [0, 4, 0xFC])
def test_what_does_not_understand_marks_has_none_and_fills_the_queue(tos: int) -> None:
    with switch(PROGRAMS[0], ecn.marking(1, 8.0, PACKET)) as made:
        assert not any(marks(made, [MILLISECOND] * 2 * ecn.DEEP, tos))
        assert all(marks(made, [MILLISECOND] * 4))


def test_nothing_is_marked_without_a_rate() -> None:
    with switch(PROGRAMS[0], []) as made:
        assert not any(marks(made, [MILLISECOND] * 2 * ecn.DEEP))


def test_a_queue_that_holds_little_is_marked_sooner() -> None:
    with switch(PROGRAMS[0], ecn.marking(1, 8.0, PACKET, depth=16)) as made:
        assert all(marks(made, [MILLISECOND] * 20)[8 + 1 :])
