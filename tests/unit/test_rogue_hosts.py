"""Whatever a host of one job sends, no sum of another job changes, and nothing that claims to be a result reaches its workers.

A frame may carry any addresses, VLAN tags, IPv4 options, fragments and lengths, around a datagram that is right but for what the
example changes. What a Linux host takes for a datagram to the protocol's port is what `understood` finds in a frame.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP

from inalab.hosts.atp import wire as atp_wire
from inalab.hosts.atp.allocation import beginning
from inalab.hosts.atp.tree import Tree
from inalab.hosts.collective import Membership
from inalab.hosts.switchml import wire
from inalab.switches.forwarding import Station
from inalab.topologies.jobs import JobPlan, deal
from inalab.topologies.plan import HostPlan, NetworkPlan
from inalab.topologies.racks import Racks
from tests import atp_packets, packets
from tests.fabric import Arrival, Fabric, admitted
from tests.merging import merger_of, take
from tests.packets import EPOCH, K, vector
from tests.properties import examples

RACKS = {
    scheme: Racks(2, 2, host_rate=None, uplink_rate=None, servers=servers) for scheme, servers in (("switchml", 0), ("atp", 2))
}
SLOTS = 4
SINK = "02:00:00:00:00:63"


@dataclass(frozen=True)
class Forgery:
    """A frame in the making: numbers choose addresses from those of the network, 0 the sender's own."""

    rogue: int  # which of the hosts of job 1
    mac_from: int
    mac_to: int
    ip_from: int
    ip_to: int
    tags: tuple[int, ...]
    options: int  # words
    fragment: tuple[int, int]  # more fragments, offset
    lengths: tuple[int, int]  # added to IPv4's and UDP's
    checksum: bool
    port: int
    fields: dict[str, int]
    integers: int


small = st.sampled_from([0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8])
FIELDS: dict[str, dict[str, st.SearchStrategy[int]]] = {
    "switchml": {
        "job": st.integers(0, 2), "worker": st.integers(0, 3), "kind": st.integers(0, 5), "version": st.integers(0, 2),
        "slot": st.integers(0, SLOTS), "epoch": st.sampled_from([0, EPOCH - 1, EPOCH, EPOCH + 1, 2**31, 2**32 - 1]),
        "chunk": st.sampled_from([0, 1, SLOTS, 2**31, 2**32 - 1]), "exponent": st.integers(0, 255),
    },
    "atp": {
        "job": st.integers(0, 2), "kind": st.integers(0, 6), "epoch": st.sampled_from([0, EPOCH - 1, EPOCH, EPOCH + 1, 2**31]),
        "sequence": st.integers(0, 3), "index": st.integers(0, atp_packets.AGGREGATORS), "bitmap0": st.sampled_from([0, 1, 2, 3]),
        "bitmap1": st.sampled_from([1, 2, 3, 2**30, 2**31, 3 * 2**30]), "edge_switch": st.integers(0, 1),
        "resend": st.integers(0, 1), "collision": st.integers(0, 1), "overflow": st.integers(0, 1), "raw": st.integers(0, 1),
    },
}  # fmt: skip


def forgeries(scheme: str) -> st.SearchStrategy[list[Forgery]]:
    tag = st.sampled_from([0x81000000, 0x81000005, 0x88A80000, 0x91000000])
    made = st.builds(
        Forgery, st.integers(0, 1), small, small, small, small, st.lists(tag, max_size=2).map(tuple), st.sampled_from([0, 0, 0, 1, 10]),
        st.sampled_from([(0, 0), (0, 0), (0, 0), (1, 0), (0, 1), (1, 2)]),
        st.tuples(st.sampled_from([0, 0, 0, -8, 8]), st.sampled_from([0, 0, 0, -8, 8])), st.booleans(),
        st.sampled_from([0, 0, 0, 1]), st.fixed_dictionaries({}, optional=FIELDS[scheme]), st.sampled_from([K, K, K, K - 1, 0]),
    )  # fmt: skip
    return st.lists(made, min_size=1, max_size=25)


class Attack:
    """Two jobs on the switches of two racks. The hosts of job 1 forge; job 0 sums in the meantime."""

    def __init__(self, scheme: str) -> None:
        self.scheme, self.plan = scheme, NetworkPlan(RACKS[scheme])
        self.jobs = deal(self.plan, [[1, 1], [1, 1]], [RACKS[scheme].servers // 2] * 2)
        own = {"aggregators": atp_packets.AGGREGATORS} if scheme == "atp" else {}
        jobs = admitted(scheme, self.jobs, slots=SLOTS, k=K, **own)
        program = atp_packets.program() if scheme == "atp" else packets.program()
        self.fabric = Fabric(self.plan, program, jobs)
        self.port = atp_wire.UDP_PORT if scheme == "atp" else wire.UDP_PORT
        everyone = [h.station for h in self.plan.everyone] + [s.station for s in self.plan.switches.values()]
        self.stations = [*everyone, Station("ff:ff:ff:ff:ff:ff", "10.0.255.255"), Station(SINK, "10.0.0.99")]

    def update(
        self, job: JobPlan, rank: int, chunk: int, value: int, epoch: int = EPOCH
    ) -> tuple[HostPlan, dict[str, int], Station]:
        """Who sends a worker's packet, its header, and to whom it goes."""
        host = job.hosts[rank]
        if self.scheme == "switchml":
            return host, {"job": job.number, "worker": 0, "slot": chunk % SLOTS, "chunk": chunk, "epoch": epoch}, host.switch
        server = job.servers[0]
        bitmap0, bitmap1 = self.tree(job).bitmaps(rank)
        index = int(beginning(job.number, SLOTS, atp_packets.AGGREGATORS)[0][chunk % SLOTS])
        header = {
            "job": job.number, "bitmap0": bitmap0, "bitmap1": bitmap1, "index": index, "sequence": chunk, "epoch": epoch,
            "edge_switch": int(server.rack == host.rack),
        }  # fmt: skip
        return host, header, server.station

    def tree(self, job: JobPlan) -> Tree:
        return Tree(Membership(job.number, 0, job.size, job.members(2)), job.servers[0].rack)

    def frame(self, source: Station, to: Station, header: dict[str, int], numbers: list[int]) -> bytes:
        return (atp_packets.frame if self.scheme == "atp" else packets.frame)(source, to, header, numbers)

    def honest(self, rank: int, chunk: int, value: int) -> list[Arrival]:
        host, header, to = self.update(self.jobs[0], rank, chunk, value)
        return self.fabric.send(host, self.frame(host.station, to, header, vector(value)))

    def forge(self, f: Forgery) -> list[Arrival]:
        host, header, to = self.update(self.jobs[1], f.rogue, 0, 0)

        def station(choice: int, default: Station) -> Station:
            return self.stations[(choice - 1) % len(self.stations)] if choice else default

        source = Station(station(f.mac_from, host.station).mac, station(f.ip_from, host.station).ip)
        target = Station(station(f.mac_to, to).mac, station(f.ip_to, to).ip)
        good = self.frame(source, target, {**header, **f.fields}, [2**20 + 5] * f.integers)
        packet, body = IP(good[14:]), bytearray(good[34:])
        body[2:6] = struct.pack(">HH", 9 if f.port else self.port, len(body) + f.lengths[1])
        wanted = IP(
            src=packet.src, dst=packet.dst, proto=17, flags=f.fragment[0], frag=f.fragment[1], ihl=5 + f.options,
            len=20 + 4 * f.options + len(body) + f.lengths[0],
        )  # fmt: skip
        header_bytes = bytes(wanted)[:20] + b"\x01" * (4 * f.options)
        total = sum(struct.unpack(f">{len(header_bytes) // 2}H", header_bytes[:10] + b"\0\0" + header_bytes[12:]))
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        header_bytes = header_bytes[:10] + struct.pack(">H", ~total & 0xFFFF ^ (0 if f.checksum else 1)) + header_bytes[12:]
        tags = b"".join(struct.pack(">I", tag) for tag in f.tags)
        return self.fabric.send(host, good[:12] + tags + good[12:14] + header_bytes + bytes(body))


def understood(data: bytes, port: int) -> str | None:
    """The source address of a datagram, or of the beginning of one, to a port, as Linux finds it; None if it is none."""
    at = 12
    while struct.unpack_from(">H", data, at)[0] in (0x8100, 0x88A8, 0x9100):
        at += 4  # a priority tag is taken off, and any tag where a VLAN is set up
    if struct.unpack_from(">H", data, at)[0] != 0x0800 or len(data) < at + 22:
        return None
    ip = data[at + 2 :]
    words, fragment = ip[0] & 15, struct.unpack_from(">H", ip, 6)[0] & 0x1FFF
    if ip[0] >> 4 != 4 or words < 5 or ip[9] != 17 or fragment or len(ip) < 4 * words + 4:
        return None
    source = ".".join(map(str, ip[12:16]))
    return source if struct.unpack_from(">H", ip, 4 * words + 2)[0] == port else None


@contextmanager
def attack(scheme: str) -> Iterator[Attack]:
    made = Attack(scheme)
    try:
        yield made
    finally:
        made.fabric.close()


def no_result_arrives(made: Attack, arrived: list[Arrival]) -> None:
    others = {host.name for host in made.jobs[0].everyone}
    for name, data in arrived:
        if name in others:
            assert understood(data, made.port) is None, (name, data.hex())
        assert understood(data, 9) in {None, *(host.station.ip for host in made.jobs[1].everyone)}


@examples(60)
@given(forgeries("switchml"))
def test_switchml_sums_and_workers_are_out_of_reach(script: list[Forgery]) -> None:
    with attack("switchml") as made:
        for chunk in range(2):
            assert made.honest(0, chunk, 100 + chunk) == []
            for f in script:
                no_result_arrives(made, made.forge(f))
            arrived = made.honest(1, chunk, 7)
            assert sorted(name for name, _ in arrived) == [host.name for host in made.jobs[0].hosts]
            for _, data in arrived:
                result = packets.read(data)
                assert (result.kind, result.job, result.epoch, result.chunk) == (wire.KIND_RESULT, 0, EPOCH, chunk)
                assert result.vector == vector(107 + chunk)


@examples(60)
@given(forgeries("atp"))
def test_atp_sums_and_hosts_are_out_of_reach(script: list[Forgery]) -> None:
    record = atp_wire.packet(K)
    with attack("atp") as made:
        server = made.jobs[0].servers[0]
        merger = merger_of((0, EPOCH, made.tree(made.jobs[0])), SLOTS, K, atp_packets.AGGREGATORS)

        def merged(arrived: list[Arrival]) -> list[Any]:
            assert {name for name, _ in arrived} <= {server.name}
            done = [take(merger, np.frombuffer(data[42 : 42 + record.itemsize], record)).finished for _, data in arrived]
            return [merger.results[row].copy() for rows in done for row in rows]

        for chunk in range(2):
            assert merged(made.honest(0, chunk, 100 + chunk)) == []
            for f in script:
                no_result_arrives(made, made.forge(f))
            (result,) = merged(made.honest(1, chunk, 7))
            assert list(result["vector"]) == vector(107 + chunk)


@pytest.mark.parametrize("scheme", ["switchml", "atp"])
def test_what_a_forgery_looks_like_without_its_changes_is_taken(scheme: str) -> None:
    """Or the tests above would say nothing."""
    plain = Forgery(0, 0, 0, 0, 0, (), 0, (0, 0), (0, 0), True, 0, {}, K)
    with attack(scheme) as made:
        made.forge(plain)
        tor = made.fabric.switches["tor0"]
        assert tor.register("epoch.newest", 1) == EPOCH
        assert sum(tor.counter("admission.rejected", reason) for reason in range(3)) == 0
        to_sink = Forgery(0, 0, 1, 0, 1, (), 0, (0, 0), (0, 0), True, 1, {}, K)
        assert [understood(data, 9) for _, data in made.forge(to_sink)] == [made.jobs[1].hosts[0].station.ip]


def test_a_gradient_for_its_server_does_not_go_to_another_hosts_mac() -> None:
    """All else of it is right; Ethernet would take it there."""
    astray = Forgery(0, 0, 1, 0, 0, (), 0, (0, 0), (0, 0), True, 0, {}, K)
    with attack("atp") as made:
        assert made.forge(astray) == []
        assert sum(made.fabric.switches["tor0"].counter("admission.rejected", reason) for reason in range(3)) == 1
