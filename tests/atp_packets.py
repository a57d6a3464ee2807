"""ATP's packets in tests: built and read with scapy, and the commands that admit a job of one rack or of a remote one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from scapy.fields import BitField, ByteField, FieldListField, IntField, ShortField, SignedIntField, X3BytesField
from scapy.layers.inet import UDP
from scapy.packet import Packet, bind_layers

from inalab.hosts.atp import wire
from inalab.switches import atp
from inalab.switches.commands import Commands
from inalab.switches.embedded.build import build
from inalab.switches.forwarding import Station, forwarding
from tests.packets import EPOCH, K, datagram, payload, worker_station

SWITCH = Station("02:00:00:00:00:fe", "10.0.0.254")
SERVER = Station("02:00:00:00:03:01", "10.0.0.101")
SERVER_PORT = 7
UPLINK = 6
ROOT = Station("02:00:00:00:02:fe", "10.0.255.254")
REMOTE = Station("02:00:00:00:01:01", "10.0.1.1")  # worker 0 of rack 1, seen from rack 0
RACK = 1
AGGREGATORS = 16


@cache
def program(k: int = K, aggregators: int = AGGREGATORS, name: str = "atp") -> Path:
    """p4/atp.p4 or p4/esa.p4, built."""
    return build(Path(f"p4/{name}.p4"), {"K": str(k), "AGGREGATORS": str(aggregators)})


class AtpHeader(Packet):
    """The 22 bytes behind UDP, and the integers of a gradient or a result."""

    name = "ATP"
    fields_desc = [  # noqa: RUF012 (scapy's way)
        IntField("bitmap0", 0),
        IntField("bitmap1", 0),
        IntField("epoch", EPOCH),
        ByteField("kind", wire.KIND_GRADIENT),
        BitField("asked", 0, 1),
        BitField("integer", 0, 1),
        BitField("raw", 0, 1),
        BitField("overflow", 0, 1),
        BitField("resend", 0, 1),
        BitField("collision", 0, 1),
        BitField("ecn", 0, 1),
        BitField("edge_switch", 0, 1),
        ShortField("index", 0),
        ShortField("next_index", 0),
        ByteField("job", 0),
        X3BytesField("sequence", 0),
        FieldListField("vector", [], SignedIntField("v", 0), max_count=256),
    ]


bind_layers(UDP, AtpHeader, dport=wire.UDP_PORT)
bind_layers(UDP, AtpHeader, sport=wire.UDP_PORT)


@dataclass
class AtpJob:
    """Workers at ports 0, 1, … of a switch, and a server: in the same rack (level 1), or beyond the uplink (level 0).

    At level 1 a second rack may take part, whose sums come from the uplink.
    """

    workers: int
    level: int = 1
    other_rack: int = 0  # its workers
    number: int = 0

    @property
    def fan_in(self) -> int:
        """Children of this level."""
        return self.workers + (self.other_rack > 0)

    def commands(self, first_node: int = 1) -> list[str]:
        """What the switch is told; with the default `first_node`, its forwarding too."""
        stations = [worker_station(w) for w in range(self.workers)]
        toward = SERVER_PORT if self.level else UPLINK
        sources = [
            atp.Source(
                port=w, worker=s, server=SERVER, level=self.level,
                bitmap1=1 << w if self.level else atp.rack_bit(RACK),
                bitmap0=(0, 0xFFFFFFFF) if self.level else (1 << w, 0xFFFFFFFF), fan_in=self.fan_in,
            )
            for w, s in enumerate(stations)
        ]  # fmt: skip
        children = [atp.Child(w + 1, w, s) for w, s in enumerate(stations)]
        if self.other_rack:
            inside = (1 << self.other_rack) - 1
            sources.append(atp.Source(UPLINK, REMOTE, SERVER, 1, atp.rack_bit(RACK), (0, 0xFFFFFFFF ^ inside), self.fan_in))
            children.append(atp.Child(100, UPLINK, ROOT))
        server = atp.Server((toward,), SERVER, tuple(children), 0 if self.level else atp.rack_bit(RACK), self.fan_in)
        commands = Commands(nodes=first_node)
        atp.admit(commands, self.number, SWITCH, sources, [server])
        routes = {s.mac: w for w, s in enumerate(stations)} | {SERVER.mac: toward, REMOTE.mac: UPLINK}
        return [*(forwarding({*range(self.workers), toward}, routes) if first_node == 1 else []), *commands.lines]

    def gradient(
        self, worker: int, sequence: int, vector: list[int], index: int = 0, exponent: int | None = None, **fields: int
    ) -> bytes:
        """A worker's packet; `fields` overwrite those of the header."""
        header = {
            "job": self.number, "sequence": sequence, "index": index, "edge_switch": self.level,
            "bitmap1": 1 << worker if self.level else atp.rack_bit(RACK),
            "bitmap0": 0 if self.level else 1 << worker, **fields,
        }  # fmt: skip
        return frame(worker_station(worker), SERVER, header, vector, exponent)

    def from_rack(self, sequence: int, vector: list[int], index: int = 0, exponent: int | None = None, **fields: int) -> bytes:
        """What the other rack sends: its sum, or with `bitmap0` a part of it."""
        header = {
            "job": self.number, "sequence": sequence, "index": index, "edge_switch": 1,
            "bitmap1": atp.rack_bit(RACK), "bitmap0": 0, **fields,
        }  # fmt: skip
        return frame(REMOTE, SERVER, header, vector, exponent)

    def answer(
        self, sequence: int, vector: list[int], index: int = 0, to: Station = SWITCH, exponent: int | None = None, **fields: int
    ) -> bytes:
        """A packet of the server's: a result by default."""
        header = {"job": self.number, "sequence": sequence, "index": index, "kind": wire.KIND_RESULT, **fields}
        return frame(SERVER, to, header, vector, exponent)


def admitting(jobs: Iterable[AtpJob]) -> list[str]:
    """The commands that admit these jobs to one switch, one after the other; and its forwarding."""
    commands: list[str] = []
    for job in jobs:
        nodes = sum(line.startswith("mc_node_create") for line in commands)
        commands += job.commands(nodes or 1)
    return commands


def frame(source: Station, destination: Station, header: dict[str, int], vector: list[int], exponent: int | None = None) -> bytes:
    """An ATP packet from one station to another; a bare one has an exponent, and a tag in place of the vector."""
    behind = b"" if exponent is None else bytes([exponent])
    return datagram(source, destination, wire.UDP_PORT, AtpHeader(**header, vector=vector) / behind)


def read(data: bytes) -> AtpHeader:
    """The ATP part of a packet. A bare one has its tag as the vector, and its exponent behind that."""
    octets = payload(data)
    if len(octets) != wire.BARE.itemsize:
        return AtpHeader(octets)
    return AtpHeader(octets[:-1]) / octets[-1:]
