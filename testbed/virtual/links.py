"""Links in virtual time: one frame leaves after the other, or somewhat earlier where links are token buckets."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from inalab.hosts.drivers.virtual_time import VirtualTime
from inalab.hosts.ethernet import PHYSICAL_BYTES
from inalab.testbed.simulator.costs import Costs
from inalab.topologies.buckets import burst

Left = Callable[[], None] | None


class Link:
    """One direction of a link. `octets` are those of the frames that were sent."""

    def __init__(self, time: VirtualTime, rate: float | None, costs: Costs, deliver: Callable[[bytes], None]) -> None:
        """`rate` is in Mbit/s."""
        self.time, self.delay, self.deliver, self.bursts = time, costs.delay, deliver, costs.bursts
        self.set_rate(rate)
        self.free = 0.0  # when the last frame so far would have left without the bucket
        self.octets = 0
        self.seen: Callable[[bytes], None] | None = None  # called with each frame that has left

    def set_rate(self, rate: float | None) -> None:
        """In Mbit/s, for what is sent from now on."""
        self.seconds = 8 / (rate * 1e6) if rate else 0.0  # of a byte
        self.bucket = burst(rate) * self.seconds if rate and self.bursts else 0.0

    def put(self, frame: bytes) -> float:
        """Send a frame when those before it have left; when it has."""
        now = self.time.now
        self.octets += len(frame)
        self.free = (self.free if self.free > now else now) + (len(frame) + PHYSICAL_BYTES) * self.seconds
        left = max(now, self.free - self.bucket)
        if self.seen:
            self.time.at(left, self.seen, frame)
        self.time.at(left + self.delay, self.deliver, frame)
        return left


class HostLink(Link):
    """Upwards from a host: urgent frames leave first."""

    def __init__(self, time: VirtualTime, rate: float | None, costs: Costs, deliver: Callable[[bytes], None]) -> None:
        super().__init__(time, rate, costs, deliver)
        self.queues: tuple[deque[tuple[bytes, Left]], deque[tuple[bytes, Left]]] = deque(), deque()
        self.busy = False

    def enqueue(self, frame: bytes, urgent: bool, left: Left) -> None:
        """Send a frame when those before it have left that are not less urgent. `left` is called when it has left."""
        self.queues[not urgent].append((frame, left))
        if not self.busy:
            self._next(None)

    def _next(self, left: Left) -> None:
        """The frame before has left."""
        queue = self.queues[0] or self.queues[1]
        self.busy = bool(queue)
        if queue:
            frame, following = queue.popleft()
            self.time.at(self.put(frame), self._next, following)
        if left:
            left()
