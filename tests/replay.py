"""Jobs of a scheme in virtual time: their real workers and servers, the real P4 program, and links with rates, queues and losses.

Nothing depends on the machine, so what a loss costs can be counted to the packet: `python -m tests.replay --set scheme=atp
--set loss=0.01` prints it. Left out is whatever a machine adds: the time of the processors, and packets that arrive in bursts.
"""

from __future__ import annotations

import logging
import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer
from scapy.packet import Raw

from inalab.hosts.collective import NEVER, Collective
from inalab.hosts.drivers.driver import Address
from inalab.hosts.ethernet import ETHERNET_BYTES, IPV4_BYTES, PHYSICAL_BYTES, UDP_BYTES
from inalab.hosts.place import Place
from inalab.hosts.stream.datagrams import Datagrams
from inalab.hosts.tcp.meeting import Meeting
from inalab.testbed.plan.settings import TrialSettings, make_settings, parse_overrides
from inalab.testbed.theory import bounds
from inalab.testbed.trial.places import place_of
from inalab.topologies.plan import NetworkPlan
from tests import atp_packets, packets
from tests.fabric import Fabric
from tests.virtual_time import VirtualTime

EPOCH = 5
DELAY = 80e-6  # seconds that a packet takes from one node's link to the next node, beside its time on the link
HEADERS = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES


@dataclass
class Link:
    """One direction: packets leave one after the other, urgent ones first."""

    time: VirtualTime
    rate: float  # bits/s
    delay: float  # seconds from a packet's last bit to the next node
    deliver: Callable[[bytes], None]
    queues: tuple[deque[bytes], deque[bytes]] = field(default_factory=lambda: (deque(), deque()))
    busy: bool = False

    def put(self, packet: bytes, urgent: bool = False) -> None:
        self.queues[not urgent].append(packet)
        if not self.busy:
            self._next()

    def _next(self) -> None:
        queue = next(filter(None, self.queues), None)
        self.busy = queue is not None
        if queue:
            packet = queue.popleft()
            self.time.after((len(packet) + PHYSICAL_BYTES) * 8 / self.rate, self._sent, packet)

    def _sent(self, packet: bytes) -> None:
        self.time.after(self.delay, self.deliver, packet)
        self._next()


class ReplayedSocket:
    """A host's end on a replayed network (hosts.drivers.driver.Endpoint)."""

    def __init__(self, net: ReplayedNetwork, local: Address, peers: list[Address], sender: Datagrams, receive_rows: int) -> None:
        self.net, self.local, self.peers = net, local, peers
        self.sender, self.receiver = sender, Datagrams(receive_rows, sender.record)
        self.link = net.uplinks[local[0]]
        self.inbox: deque[bytes] = deque()
        self.wake: Callable[[], None] | None = None
        self.urgent = self.interrupted = False
        net.sockets[local[0]] = self

    def send(self, rows: Any, length: int | None = None, give_up_at: float | None = None, peer: int = 0) -> int:
        length = length or self.sender.record.itemsize
        head, begin = self.net.headers(self.local, self.peers[peer], length), _begin(self.sender)
        for row in rows:
            self.link.put(head + self.sender.octets[row, begin : begin + length].tobytes(), self.urgent)
        return len(rows)

    def arrive(self, datagram: bytes) -> None:
        self.inbox.append(datagram)
        if self.wake:
            self.wake()
            self.wake = None

    def wait(self, seconds: float, interrupt: int = NEVER) -> bool:
        if not self.inbox and seconds > 0:
            self.wake = self.net.time.waker()
            self.net.time.wait_until(self.net.time.now + seconds)
            self.wake = None
        return bool(self.inbox)

    def receive(self) -> Datagrams:
        count, begin = min(len(self.inbox), len(self.receiver)), _begin(self.receiver)
        lengths = np.zeros(count, np.uint32)
        for row in range(count):
            datagram = self.inbox.popleft()
            self.receiver.octets[row, begin : begin + len(datagram)] = np.frombuffer(datagram, np.uint8)
            lengths[row] = len(datagram)
        return self.receiver.first(count, lengths)

    def set_urgent(self, urgent: bool) -> None:
        self.urgent = urgent

    def close(self) -> None:
        self.inbox.clear()


def _begin(datagrams: Datagrams) -> int:
    """Where a row's datagram begins."""
    return datagrams.base - int(datagrams.octets.ctypes.data)


class ReplayedNetwork:
    """The switches, links and hosts of a trial's settings."""

    def __init__(self, time: VirtualTime, settings: TrialSettings, seed: int) -> None:
        self.time, self.plan = time, settings.plan()
        self.admitted = settings.admitted(self.plan)
        running = settings.running()
        unpaced = NetworkPlan(replace(self.plan.topology, host_rate=None, uplink_rate=None))  # switches wait in this machine's time
        atp = running.name == "atp"
        program = atp_packets.program(settings.k, settings.scheme_settings().aggregators) if atp else packets.program(settings.k)
        self.fabric = Fabric(unpaced, program, self.admitted, settings.loss_model(), seed)
        if atp:
            for switch in self.fabric.switches.values():
                switch.command("register_write aggregator.lifetime 0 0")  # which is in the time of this machine
        self.sockets: dict[str, ReplayedSocket] = {}  # by address, as are:
        self.uplinks: dict[str, Link] = {}
        self.stations = {n.station.ip: n.station for n in (*self.plan.everyone, *self.plan.switches.values())}
        self._heads: dict[tuple[str, str, int], bytes] = {}
        self._ports: dict[tuple[str, int], Link] = {}  # from a switch's port
        rates = {link.number: link.rate for link in self.plan.links}

        def link(number: int, deliver: Callable[[bytes], None], latency: float = 0.0) -> Link:
            rate = rates[number]
            assert rate, "a replay needs the rates of all links"
            return Link(time, rate * 1e6, DELAY + latency, deliver)

        addresses = {host.name: host.station.ip for host in self.plan.everyone}
        for name, planned in self.plan.switches.items():
            for a in planned.attachments:
                if address := addresses.get(a.peer):
                    self._ports[name, a.port] = link(a.link, partial(self._to_host, address), settings.latency / 1000)
                    self.uplinks[address] = link(a.link, self._into(name, a.port))
                else:
                    self._ports[name, a.port] = link(
                        a.link, self._into(a.peer, self.plan.port(a.peer, name)), settings.latency / 1000
                    )

    def _into(self, name: str, port: int) -> Callable[[bytes], None]:
        """What delivers packets to a switch's port."""

        def deliver(packet: bytes) -> None:
            for out, copy in self.fabric.switches[name].send(port, packet):
                self._ports[name, out].put(copy)

        return deliver

    def _to_host(self, address: str, packet: bytes) -> None:
        if found := self.sockets.get(address):
            found.arrive(packet[HEADERS:])

    @property
    def lost(self) -> int:
        """Packets, on all links."""
        return sum(
            self.fabric.switches[name].counter(f"{direction}.dropped", port)
            for name, port in self._ports
            for direction in ("loss_in", "loss_out")
        )

    def headers(self, local: tuple[str, int], peer: tuple[str, int], length: int) -> bytes:
        """What precedes a datagram on a link."""
        key = (local[0], peer[0], length)
        if key not in self._heads:
            source, destination = self.stations[local[0]], self.stations[peer[0]]
            self._heads[key] = packets.datagram(source, destination, local[1], Raw(bytes(length)))[:HEADERS]
        return self._heads[key]

    # --- a driver of the hosts' cores (hosts.drivers.driver.Driver)

    def monotonic(self) -> float:
        return self.time.now

    def sleep(self, seconds: float) -> None:
        self.time.sleep(seconds)

    def datagrams(
        self, local: Address, peers: list[Address], sender: Datagrams, receive_rows: int, segments: int = 1
    ) -> ReplayedSocket:
        return ReplayedSocket(self, local, peers, sender, receive_rows)

    def meet(self, *of: Any) -> Meeting:
        """TCP is not replayed: nobody asks a server over it."""
        return Meeting(EPOCH)

    await_group = meet

    def close(self) -> None:
        self.fabric.close()


@dataclass
class Replayed:
    """What a replay has shown. `tats` are, by job, seconds from the last worker's start of a sum to the last one's end."""

    tats: list[list[float]]
    bound: float  # seconds
    lost: int
    retransmissions: int
    queries: int
    duplicates: int

    @property
    def tat(self) -> float:
        """The median over the sums of all jobs but the first of each."""
        return statistics.median(tat for of_job in self.tats for tat in of_job[1:])


def replay(settings: TrialSettings, elements: int, seed: int = 1) -> Replayed:
    """Sums of so many float32 elements, one a step. Raises what a worker or server raises, and AssertionError at a wrong sum."""
    return _Replay(settings, elements, seed).run()


class _Replay:
    def __init__(self, settings: TrialSettings, elements: int, seed: int) -> None:
        self.time = VirtualTime()
        self.net = ReplayedNetwork(self.time, settings, seed)
        self.settings, self.elements, self.seed = settings, elements, seed
        self.workers: list[Collective] = []
        self.spans: list[list[list[tuple[float, float]]]] = [[[] for _ in range(settings.steps)] for _ in self.net.admitted]

    def run(self) -> Replayed:
        for job in self.net.admitted:
            for host in job.plan.everyone:
                work = self._work if host in job.plan.hosts else self._serve
                self.time.start(partial(work, replace(place_of(self.net.plan, job, host), driver=self.net)))
        try:
            self.time.run(until=self._over)
            return self._replayed()
        finally:
            self.time.end()
            self.net.close()

    def _over(self) -> bool:
        return all(len(spans[-1]) == job.plan.size for job, spans in zip(self.net.admitted, self.spans, strict=True))

    def _work(self, place: Place) -> None:
        rank, size = place.membership.rank, place.membership.size
        self.workers.append(worker := place.scheme.join(place, EPOCH))
        tensors = [np.random.default_rng([self.seed, r]).normal(0, 0.01, self.elements).astype(np.float32) for r in range(size)]
        for step, spans in enumerate(self.spans[place.membership.job]):
            slowdown = self.settings.straggler_model().slowdown(self.seed, rank, step)
            self.time.sleep(self.settings.compute_ms / 1000 * slowdown)
            begun = self.time.now
            total = worker.all_reduce(tensors[rank].copy())
            spans.append((begun, self.time.now))
            np.testing.assert_allclose(total, np.sum(tensors, axis=0), atol=size * 1e-5)

    def _serve(self, place: Place) -> None:
        server = place.scheme.serve(place, lambda: False)
        assert server is not None
        server.serve()

    def _replayed(self) -> Replayed:
        counted = [worker.counters for worker in self.workers]
        return Replayed(
            [[max(end for _, end in s) - max(begun for begun, _ in s) for s in of_job] for of_job in self.spans],
            bounds.seconds(self.settings.each()[0], self.elements),
            self.net.lost,
            *(sum(getattr(c, name) for c in counted) for name in ("retransmissions", "queries", "duplicates")),
        )


def main(
    words: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="scheme, loss, racks, workers, ...")] = None,
    elements: Annotated[int, typer.Option(help="of a tensor")] = 16_640,
    seed: Annotated[int, typer.Option(help="of losses, stragglers and tensors")] = 1,
) -> None:
    """Replay jobs in virtual time, and print what its sums took and what was sent again."""
    logging.disable(logging.WARNING)
    settings = make_settings(TrialSettings, {"steps": 10, **parse_overrides(words or [], TrialSettings)})
    if settings.queue is not None:
        raise typer.BadParameter("a replay's queues hold all that comes: leave queue out")
    found = replay(settings, elements, seed)
    print(
        f"TAT {1e3 * found.tat:.1f} ms, {found.tat / found.bound:.3f} of the bound; {found.lost:,} packets lost, "
        f"{found.retransmissions:,} sent again, {found.queries:,} queries, {found.duplicates:,} duplicates"
    )


if __name__ == "__main__":
    typer.run(main)
