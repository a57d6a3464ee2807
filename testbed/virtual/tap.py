"""What passes the upper end of a link in virtual time, in a file as target embedded writes it (testbed.trial.capture)."""

from __future__ import annotations

from inalab.hosts.drivers.virtual_time import VirtualTime
from inalab.testbed.trial import pcapng
from inalab.testbed.trial.capture import beginning, write
from inalab.testbed.virtual.network import NANOSECONDS, VirtualNetwork
from inalab.topologies.plan import LinkPlan

AT_ONCE = 1 << 20  # bytes that are written at a time


class Tap:
    """Of one link. Times count from the beginning of virtual time."""

    def __init__(self, network: VirtualNetwork, link: LinkPlan, descriptor: int) -> None:
        self.time: VirtualTime = network.time
        self.descriptor, self.packets = descriptor, 0
        self.waiting = bytearray(beginning(link))
        up, down = network.links[link.number, True], network.links[link.number, False]
        deliver = up.deliver

        def comes(frame: bytes) -> None:
            self._note(frame, outbound=False)
            deliver(frame)

        up.deliver = comes
        down.seen = lambda frame: self._note(frame, outbound=True)

    def _note(self, frame: bytes, outbound: bool) -> None:
        self.packets += 1
        self.waiting += pcapng.packet(round(self.time.now * NANOSECONDS), frame, len(frame), outbound)
        if len(self.waiting) > AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Write what has passed."""
        write(self.descriptor, bytes(self.waiting))
        self.waiting.clear()
