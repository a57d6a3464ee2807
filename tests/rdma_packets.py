"""RoCE packets of SwitchML's tests: what workers write to a switch, and the commands that admit their job."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from inalab.hosts.switchml import wire
from inalab.switches.commands import Commands
from inalab.switches.embedded.build import build
from inalab.switches.embedded.offline import OfflineSwitch
from inalab.switches.switchml import PARENT as PARENT_LINK
from inalab.switches.switchml import Child, Parent, Pool, admit, configure_roce
from tests.packets import EPOCH, PARENT, PARENT_PORT, SWITCH, K, worker_station
from tests.roce import FIRST, LAST, MIDDLE, ONLY, Reth, Roce

BYTES = 4 * K  # of a packet's payload
HEADER = struct.Struct(">BBBBHBBII")
KEY, ADDRESS, NUMBER = 0xABCD0000, 0x7000_0000_0000, 100  # of worker 0's first queue pair's end


@cache
def program(k: int = K) -> Path:
    """p4/switchml_rdma.p4, built for k integers a packet."""
    return build(Path("p4/switchml_rdma.p4"), {"K": str(k)})


def words(vector: Sequence[int]) -> bytes:
    """Integers as they are on the wire."""
    return b"".join((v % 2**32).to_bytes(4, "big") for v in vector)


def integers(payload: bytes) -> tuple[int, ...]:
    return struct.unpack(f">{len(payload) // 4}i", payload)


def immediate(exponents: Sequence[int] = (0, 0, 0, 0), turn: int = 0, again: bool = False) -> int:
    packed = 0
    for exponent in exponents:
        packed = packed << 7 | exponent
    return again << 31 | turn << 28 | packed


@dataclass
class RdmaJob:
    """A job whose worker w is at port w, with `pairs` messages of so many packets each under way."""

    workers: int
    message: int = 4
    pairs: int = 2
    number: int = 0
    base: int = 0
    has_parent: bool = False
    switches: frozenset[int] = frozenset()

    @property
    def slots(self) -> int:
        return self.message * self.pairs

    def commands(self) -> list[str]:
        children = [
            Child(w, w, worker_station(w), udp_port=4791, ranks=(w,), switch=w in self.switches) for w in range(self.workers)
        ]
        parent = Parent(PARENT_PORT, PARENT, 3) if self.has_parent else None
        commands = Commands()
        configure_roce(commands, SWITCH)
        admit(commands, self.number, Pool(self.base, self.slots), SWITCH, children, parent, self.message)
        return commands.lines

    def switch(self) -> OfflineSwitch:
        made = OfflineSwitch(program())
        for line in self.commands():
            made.command(line)
        return made

    def port(self, link: int) -> int:
        return PARENT_PORT if link == PARENT_LINK else link

    def queue_pair(self, link: int, pair: int) -> int:
        """Of the switch."""
        return (self.number + 1) << 16 | link << 11 | pair * self.message

    def chunk(self, pair: int, turn: int) -> int:
        """Number of the first packet's chunk of a round's message."""
        return (turn * self.pairs + pair) * self.message

    def write(
        self, link: int, pair: int, turn: int, vectors: Sequence[Sequence[int]], psn: int = 0, epoch: int = EPOCH,
        exponents: Sequence[int] = (0, 0, 0, 0), again: bool = False,
    ) -> list[Roce]:  # fmt: skip
        """The packets of a message."""
        m, number = self.message, self.queue_pair(link, pair)
        reth = Reth(epoch << 32 | self.chunk(pair, turn), (turn & 1) << 16 | pair * m, m * BYTES)
        told = immediate(exponents, turn % 8, again)
        if m == 1:
            return [Roce(ONLY, number, psn, words(vectors[0]), reth, told)]
        return [
            Roce(
                FIRST if i == 0 else LAST if i == m - 1 else MIDDLE, number, (psn + i) % 2**24, words(vectors[i]),
                reth if i == 0 else None, told if i == m - 1 else None,
            )
            for i in range(m)
        ]  # fmt: skip

    def short(
        self, link: int, pair: int, turn: int, kind: int, payload: bytes, i: int = 0, exponents: Sequence[int] = (0, 0, 0, 0),
        epoch: int = EPOCH, mark: int = 0, worker: int | None = None, psn: int = 0,
    ) -> Roce:  # fmt: skip
        """A message without a vector: a SwitchML header, and what is behind it."""
        chunk = self.chunk(pair, turn)
        slot = pair * self.message + i
        header = HEADER.pack(self.number, link if worker is None else worker, kind, turn & 1, slot, 0, mark, epoch, chunk + i)
        reth = Reth(epoch << 32 | chunk, (turn & 1) << 16 | pair * self.message, len(header + payload))
        return Roce(ONLY, self.queue_pair(link, pair), psn, header + payload, reth, immediate(exponents, turn % 8))

    def connect(self, link: int, pair: int, psn: int = 0, epoch: int = EPOCH) -> Roce:
        """What tells the switch where a worker's results go."""
        number, key, address = self.end(link, pair)
        payload = number.to_bytes(4, "big") + psn.to_bytes(4, "big") + key.to_bytes(4, "big") + address.to_bytes(8, "big")
        return self.short(link, pair, 0, wire.KIND_CONNECT, payload, epoch=epoch)

    def end(self, link: int, pair: int) -> tuple[int, int, int]:
        """A worker's own: number of the queue pair, key and address of the memory."""
        return NUMBER + 10 * link + pair, KEY + link, ADDRESS + 0x10000 * pair

    def send(self, made: OfflineSwitch, link: int, packet: Roce, **how: bool) -> list[tuple[int, bytes]]:
        """Let a packet come by a link."""
        station = PARENT if link == PARENT_LINK else worker_station(link)
        return made.send(self.port(link), packet.framed(station, SWITCH, **how))
