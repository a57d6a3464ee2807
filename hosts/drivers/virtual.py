"""Hosts in virtual time: what they send crosses a network that is simulated, and what they compute takes no time by itself."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from selectors import EVENT_READ
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.collective import NEVER
from inalab.hosts.drivers.driver import Address
from inalab.hosts.drivers.virtual_connections import Meetings, VirtualConnection, VirtualSelector, Waitable
from inalab.hosts.drivers.virtual_queue_pairs import VirtualAdapter, carry
from inalab.hosts.drivers.virtual_time import Event, Process, VirtualTime
from inalab.hosts.roce.settings import QueuePairs
from inalab.hosts.roce.wire import UDP_PORT as ROCE_PORT
from inalab.hosts.stream.datagrams import Datagrams
from inalab.hosts.tcp.connection import Meeting

EPOCH = 1  # of a job's group, where there is one in a trial
FIRST_PORT = 49152  # of queue pairs (RFC 6335)
DESCRIPTORS = 1 << 20  # the first one; none of them is this machine's


class Wire(Protocol):
    """A host's link."""

    busy: float  # until when its processor is

    def put(self, datagram: bytes, source: Address, destination: Address, urgent: bool) -> None:
        """The host sends this."""
        ...

    def put_packet(self, packet: bytes, source: Address, destination: Address, urgent: bool, left: Callable[[], None]) -> None:
        """Its interface for RDMA sends this, which takes no processor; switches may mark it."""
        ...


class VirtualSignal:
    """A hosts.drivers.driver.Signal."""

    def __init__(self, host: VirtualHost) -> None:
        self.host, self.happened, self.wanted = host, 0, EVENT_READ
        self.wake: Callable[[], None] | None = None
        self.descriptor = host.know(self)

    def ready(self) -> int:
        """See Waitable."""
        return EVENT_READ if self.happened else 0

    def set(self) -> None:
        self.happened += 1
        if self.wake:
            self.wake()

    def take(self) -> None:
        time = self.host.time
        while not self.happened:
            self.wake = time.waker()
            time.wait_until(float("inf"))
        self.wake = None
        self.happened -= 1

    def close(self) -> None:
        del self.host.known[self.descriptor]


class VirtualEndpoint:
    """A hosts.drivers.driver.Endpoint."""

    def __init__(self, host: VirtualHost, local: Address, peers: list[Address], sender: Datagrams, receive_rows: int) -> None:
        self.host, self.local, self.peers, self.known = host, local, peers, frozenset(peers)
        self.sender, self.receiver = sender, Datagrams(receive_rows, sender.record)
        self.inbox: deque[bytes] = deque()
        self.wake: Callable[[], None] | None = None
        self.urgent = self.interrupted = False

    def send(self, rows: NDArray[np.intp], length: int | None = None, give_up_at: float | None = None, peer: int = 0) -> int:
        begin, wire, to = _begin(self.sender), self.host.wire, self.peers[peer]
        for row in rows:
            end = begin + (length or int(self.sender.lengths[row]))
            wire.put(self.sender.octets[row, begin:end].tobytes(), self.local, to, self.urgent)
        return len(rows)

    def set_urgent(self, urgent: bool) -> None:
        self.urgent = urgent

    def arrive(self, datagram: bytes, source: Address) -> None:
        """A datagram has come; what no peer has sent is not received."""
        if source in self.known:
            self.inbox.append(datagram)
            if self.wake:
                self.wake()

    def wait(self, seconds: float, interrupt: int = NEVER) -> bool:
        signal, time = self.host.known.get(interrupt), self.host.time
        if not self.inbox and seconds > 0 and not (signal and signal.ready()):
            self.wake = time.waker()
            if signal:
                signal.wake = self.wake
            time.wait_until(time.now + seconds)
            self.wake = None
            if signal:
                signal.wake = None
        self.interrupted = bool(signal and signal.ready())
        return bool(self.inbox)

    def receive(self) -> Datagrams:
        size, begin = self.sender.record.itemsize, _begin(self.receiver)
        count = min(len(self.inbox), len(self.receiver))
        self.host.work(count)
        lengths = np.zeros(count, np.uint32)
        for row in range(count):
            datagram = self.inbox.popleft()
            if len(datagram) <= size:  # else longer than any packet: nothing that is known
                self.receiver.octets[row, begin : begin + len(datagram)] = np.frombuffer(datagram, np.uint8)
                lengths[row] = len(datagram)
        return self.receiver.first(count, lengths)

    def drive(self, core: Any, until: float, interrupt: int = -1) -> bool:
        """Each step takes virtual time."""
        return False

    def close(self) -> None:
        self.host.endpoints.pop(self.local[1], None)


def _begin(datagrams: Datagrams) -> int:
    """Where a row's datagram begins."""
    return datagrams.base - int(datagrams.octets.ctypes.data)


class VirtualRequested:
    """A hosts.drivers.driver.Requested: what is requested is answered at once."""

    handler: Callable[[bytes], bytes]

    def __init__(self, host: VirtualHost, workers: int) -> None:
        self.epoch = host.epoch
        self.left, self.signal = workers, VirtualSignal(host)

    def fileno(self) -> int:
        return self.signal.descriptor

    def leave(self) -> None:
        """A worker leaves."""
        self.left -= 1
        self.signal.set()

    def answer(self) -> bool:
        self.signal.take()
        return self.left > 0

    def close(self) -> None:
        self.signal.close()


class VirtualRequests:
    """A hosts.drivers.driver.Requests."""

    def __init__(self, servers: dict[int, VirtualRequested]) -> None:
        self.servers = servers

    def gone(self) -> int | None:
        return None

    def ask(self, server: int, request: bytes, length: int, patience: float) -> bytes:
        return self.servers[server].handler(request)

    def close(self) -> None:
        servers, self.servers = self.servers, {}
        for server in servers.values():
            server.leave()


class VirtualComputing:
    """A hosts.drivers.driver.Computing."""

    def __init__(self, time: VirtualTime, compute: Callable[[], Any]) -> None:
        self.compute, self.over = compute, Event(time)
        self.value: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Compute it."""
        try:
            self.value = self.compute()
        except Exception as error:
            self.error = error
        self.over.set()

    def result(self) -> Any:
        self.over.wait()
        if self.error is not None:
            raise self.error
        return self.value


class VirtualProcessor:
    """A hosts.drivers.driver.Processor: a process that computes while no virtual time passes, unless it waits for a sum."""

    def __init__(self, host: VirtualHost) -> None:
        self.host, self.work, self.more = host, deque[VirtualComputing | None](), VirtualSignal(host)

    def __enter__(self) -> VirtualProcessor:
        self.host.start(self._run, "compute")
        return self

    def __exit__(self, *error: Any) -> None:
        self.work.append(None)
        self.more.set()

    def submit(self, compute: Callable[..., Any], /, *given: Any) -> VirtualComputing:
        found = VirtualComputing(self.host.time, lambda: compute(*given))
        self.work.append(found)
        self.more.set()
        return found

    def _run(self) -> None:
        while True:
            self.more.take()
            if (next_one := self.work.popleft()) is None:
                return
            next_one.run()


class VirtualHost:
    """A hosts.drivers.driver.Driver. `meetings`, and `servers` by their address and port, are what all hosts share.

    To take in a batch of packets takes the host's processor `batch` seconds, and `each` for every one of them; it `naps` where that
    is so long that packets had better gather.
    """

    def __init__(
        self, time: VirtualTime, wire: Wire, meetings: Meetings, servers: dict[Address, VirtualRequested], each: float,
        batch: float, naps: bool,
    ) -> None:  # fmt: skip
        self.time, self.wire, self.servers, self.each, self.batch = time, wire, servers, each, batch
        self.nap = time.sleep if naps else lambda seconds: None
        self.known: dict[int, Waitable] = {}  # by descriptor
        self.numbers, self.ports = itertools.count(DESCRIPTORS), itertools.count(FIRST_PORT)
        self.endpoints: dict[int, VirtualEndpoint] = {}  # by port
        self.pairs: dict[Address, VirtualAdapter] = {}  # by where the other ends' packets are from
        self.processes: list[Process] = []
        self.epoch = EPOCH  # of the group that a server on it serves
        self.monotonic, self.sleep = time.monotonic, time.sleep
        self.meet, self.reach, self.await_group = meetings.meet, meetings.reach, meetings.await_group

    def know(self, one: Waitable) -> int:
        """A descriptor for this."""
        self.known[number := next(self.numbers)] = one
        return number

    def connected(self, end: VirtualConnection) -> None:
        """This end of a connection is the host's."""
        end.descriptor = self.know(end)

    def arrive(self, datagram: bytes, source: Address, port: int, marked: bool = False) -> None:
        """A datagram has come for a port. `marked`: a queue on its way was deep."""
        if port == ROCE_PORT and (adapter := self.pairs.get(source)):
            adapter.arrive(datagram, marked)
        elif found := self.endpoints.get(port):
            found.arrive(datagram, source)

    def work(self, packets: int) -> None:
        """Take in so many packets, once the processor has sent what it is sending."""
        self.wire.busy = max(self.wire.busy, self.time.now) + self.batch + packets * self.each
        if self.wire.busy > self.time.now:
            self.time.wait_until(self.wire.busy)

    def event(self) -> Event:
        """See Driver, as all that follow."""
        return Event(self.time)

    def signal(self) -> VirtualSignal:
        return VirtualSignal(self)

    def start(self, work: Callable[[], object], name: str) -> Event:
        over = Event(self.time)

        def whole() -> None:
            try:
                work()
            finally:
                over.set()

        self.begin(whole)
        return over

    def begin(self, work: Callable[[], object]) -> Process:
        """A process of this host."""
        self.processes = [process for process in self.processes if not process.dead]
        self.processes.append(started := self.time.start(work))
        return started

    def kill(self) -> None:
        """All its processes end, and the kernel closes what they had open."""
        processes, self.processes = self.processes, []
        for process in processes:
            self.time.kill(process)
        self.endpoints.clear()
        for one in list(self.known.values()):
            if isinstance(one, VirtualConnection):
                one.close()
        self.known.clear()

    def stop(self) -> None:
        """They take no more turns, until they `go_on`."""
        for process in self.processes:
            process.stopped = True

    def go_on(self) -> None:
        """See `stop`."""
        for process in self.processes:
            self.time.go_on(process)

    def processor(self) -> VirtualProcessor:
        return VirtualProcessor(self)

    def selector(self) -> VirtualSelector:
        return VirtualSelector(self.time, self.known)

    def datagrams(
        self,
        local: Address,
        peers: list[Address],
        sender: Datagrams,
        receive_rows: int,
        segments: int = 1,
        unnumbered: bool = False,
    ) -> VirtualEndpoint:
        found = self.endpoints[local[1]] = VirtualEndpoint(self, local, peers, sender, receive_rows)
        return found

    def carry(self, meeting: Meeting, me: int, peers: list[str], pairs: QueuePairs, patience: float) -> Meeting:
        return carry(self, meeting, me, peers, pairs, patience)

    def requests(
        self, me: int, servers: Iterable[int], workers: int, addresses: list[str], port: int, patience: float, epoch: int
    ) -> VirtualRequests:
        return VirtualRequests({server: self.servers[addresses[server], port] for server in servers})

    def requested(
        self, me: int, workers: Iterable[int], addresses: list[str], port: int, patience: float, over: Callable[[], bool], size: int
    ) -> VirtualRequested:
        found = self.servers[addresses[me], port] = VirtualRequested(self, len(list(workers)))
        return found
