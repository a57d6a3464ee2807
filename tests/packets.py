"""Packets of tests: SwitchML over UDP built and read with scapy, and the commands that admit a small job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from scapy.fields import ByteField, ConditionalField, FieldListField, IntField, ShortField, SignedIntField
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, bind_layers

from inalab.hosts.switchml import wire
from inalab.switches import switchml
from inalab.switches.commands import Commands
from inalab.switches.embedded.build import build
from inalab.switches.forwarding import Station
from inalab.switches.switchml import Child, Parent, Pool, admit

K = 32
EPOCH = 7  # of packets that say no other
SWITCH = Station("02:00:00:00:00:fe", "10.0.0.254")
PARENT = Station("02:00:00:00:01:fe", "10.0.1.254")
PARENT_PORT = 7


@cache
def program(k: int = K, library: bool = False) -> Path:
    """p4/switchml.p4, built for k integers a packet."""
    return build(Path("p4/switchml.p4"), {"K": str(k)}, library=library)


class SwitchMLHeader(Packet):
    """The 16 bytes behind UDP, and the integers of an update or a result, or the bitmap of a query or its answer."""

    name = "SwitchML"
    fields_desc = [  # noqa: RUF012 (scapy's way)
        ByteField("job", 0),
        ByteField("worker", 0),
        ByteField("kind", wire.KIND_UPDATE),
        ByteField("version", 0),
        ShortField("slot", 0),
        ByteField("exponent", 0),
        ByteField("mark", 0),
        IntField("epoch", EPOCH),
        IntField("chunk", 0),
        ConditionalField(IntField("seen", 0), lambda packet: packet.kind in (wire.KIND_QUERY, wire.KIND_STATUS)),
        FieldListField("vector", [], SignedIntField("v", 0), max_count=256),
    ]


bind_layers(UDP, SwitchMLHeader, dport=wire.UDP_PORT)
bind_layers(UDP, SwitchMLHeader, sport=wire.UDP_PORT)


def worker_station(worker: int) -> Station:
    return Station(f"02:00:00:00:00:{worker + 1:02x}", f"10.0.0.{worker + 1}")


@dataclass
class TestJob:
    """A job whose worker w is at port w; every packet of a test comes from here. Those in `switches` are racks' switches. Links are
    called by their workers' numbers, and the one to the parent by that of switchml.PARENT."""

    __test__ = False
    workers: int
    slots: int = 4
    number: int = 0
    base: int = 0
    has_parent: bool = False
    switches: frozenset[int] = frozenset()

    def commands(self, after: Sequence[str] = ()) -> list[str]:
        """What admits it, in a switch that has carried out the commands `after` which these come."""
        children = [Child(w, w, worker_station(w), ranks=self.ranks(w), switch=w in self.switches) for w in range(self.workers)]
        parent = Parent(PARENT_PORT, PARENT, 0) if self.has_parent else None
        commands = Commands(nodes=sum(line.startswith("mc_node_create") for line in after))
        admit(commands, self.number, Pool(self.base, self.slots), SWITCH, children, parent)
        return commands.lines

    @property
    def links(self) -> list[int]:
        return [*range(self.workers), *([switchml.PARENT] if self.has_parent else [])]

    def _above(self, link: int) -> bool:
        return self.has_parent and link == switchml.PARENT

    def port(self, link: int) -> int:
        return PARENT_PORT if self._above(link) else link

    def station(self, link: int) -> Station:
        return PARENT if self._above(link) else worker_station(link)

    def number_there(self, link: int) -> int:
        """Of this switch, at the switch to which a link leads."""
        return 0 if self._above(link) else switchml.PARENT

    def ranks(self, worker: int) -> tuple[int, ...]:
        """Two ranks a worker, as if it were a rack's switch; none of them is a worker's number."""
        return (10 * worker + 5, 10 * worker + 6)

    def update(
        self, worker: int, slot: int, chunk: int, vector: list[int], version: int = 0, exponent: int = 0,
        epoch: int = EPOCH, change: dict[str, int] | None = None,
    ) -> bytes:  # fmt: skip
        """A worker's update packet; `change` overwrites header fields."""
        station = self.station(worker)
        header = {
            "job": self.number, "worker": worker, "kind": wire.KIND_UPDATE, "slot": slot, "chunk": chunk,
            "version": version, "exponent": exponent, "epoch": epoch, **(change or {}),
        }  # fmt: skip
        return frame(station, SWITCH, header, vector)


def datagram(source: Station, destination: Station, port: int, payload: Packet) -> bytes:
    """A UDP datagram to a port, from the same one, without a checksum."""
    ethernet = Ether(src=source.mac, dst=destination.mac) / IP(src=source.ip, dst=destination.ip)
    return bytes(ethernet / UDP(sport=port, dport=port, chksum=0) / payload)


def payload(data: bytes) -> bytes:
    """What is behind UDP, having checked that IPv4 and UDP agree with it."""
    packet = Ether(data)
    assert packet[IP].len == len(data) - 14
    assert packet[UDP].len == len(data) - 34
    checked = packet[IP].copy()
    del checked.chksum
    assert IP(bytes(checked)).chksum == packet[IP].chksum
    return bytes(packet[UDP].payload)


def frame(source: Station, destination: Station, header: dict[str, int], vector: list[int]) -> bytes:
    """A SwitchML packet from one station to another."""
    return datagram(source, destination, wire.UDP_PORT, SwitchMLHeader(**header, vector=vector))


def read(data: bytes) -> SwitchMLHeader:
    """The SwitchML part of a packet."""
    return SwitchMLHeader(payload(data))


def vector(*values: int) -> list[int]:
    """K integers that begin with `values` and repeat the last."""
    return [*values, *([values[-1]] * (K - len(values)))]
