"""Gloo's all-reduces as a scheme's sums, in a group of its own: for jobs whose members change (hosts.training.elastic)."""

from __future__ import annotations

import threading
from datetime import timedelta
from selectors import EVENT_READ
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import AllreduceOptions

from inalab.hosts.collective import NEVER, AggregationError, Counters, Sum, Summing
from inalab.hosts.gloo import explain
from inalab.hosts.place import Place, Pulse
from inalab.hosts.tcp.connection import count_segments
from inalab.hosts.tcp.kernel import connections_from

PORT, PORTS = 29600, 1000  # of the store where a group's members meet, by its epoch
MEETING = 10.0  # seconds in which all members have to come, or half of patience
LONGEST = timedelta(days=1)  # of a sum: the pulse ends it sooner
PULSE = 0.5  # seconds between two looks at whether there is a reason to give up


class GlooSums(Summing):
    """A worker. Raises AggregationError where the others do not come. Not thread-safe."""

    def __init__(self, place: Place, epoch: int, pulse: Pulse) -> None:
        super().__init__()
        self.place, self.pulse, self.driver = place, pulse, place.driver
        self.counters, m = Counters(), place.membership
        self.own = place.peers[m.rank]  # address
        kind: Any = dist.ProcessGroupGloo
        options, meeting = kind._Options(), timedelta(seconds=min(MEETING, place.settings.patience / 2))
        try:
            options._devices, options._timeout = [kind.create_device(hostname=self.own)], meeting
            self.store = dist.TCPStore(  # type: ignore[attr-defined]
                place.control[0], PORT + epoch % PORTS, m.size, is_master=m.rank == 0, timeout=meeting
            )
            self.gloo = kind(self.store, m.rank, m.size, options)
        except (RuntimeError, dist.DistError) as error:
            raise self._error(error) from None
        self.over, self.lock, self.closed = self.driver.signal(), threading.Lock(), False

    def _start(self, started: Sum) -> None:
        """Nothing: one sum after another."""

    def _advance(self, started: Sum, interrupt: int) -> None:
        tensor = torch.from_numpy(started.flat.copy())
        given = AllreduceOptions()
        given.timeout = LONGEST
        work = self.gloo.allreduce([tensor], given)
        work.get_future().add_done_callback(self._ended)
        with self.driver.selector() as waiting:
            waiting.register(self.over.descriptor, EVENT_READ)
            if interrupt != NEVER:
                waiting.register(interrupt, EVENT_READ, NEVER)
            while self.over.descriptor not in (ready := [key.fd for key, _ in waiting.select(PULSE)]):
                if ready:  # the interrupt, which then has been noticed
                    waiting.unregister(interrupt)
                if self.pulse is not None and (reason := self.pulse()):
                    raise self._error(reason)
        self.over.take()
        try:
            work.wait()
        except RuntimeError as error:
            raise self._error(error) from None
        connections = connections_from(self.own)
        count_segments(self.counters, connections)
        for connection in connections:
            connection.close()
        started.end(tensor.numpy())

    def _ended(self, _: object) -> None:
        """Called by a thread of Gloo's, maybe when nobody waits any more."""
        with self.lock:
            if not self.closed:
                self.over.set()

    def _error(self, reason: str | Exception) -> AggregationError:
        m = self.place.membership
        known = reason if isinstance(reason, str) else explain(reason, self.place) or str(reason)
        return AggregationError(f"worker {m.rank}: job {m.job} cannot be completed: {known}", incomplete=True)

    def close(self) -> None:
        """Leave the group."""
        self.gloo.abort()
        with self.lock:
            self.closed = True
            self.over.close()
