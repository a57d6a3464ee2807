"""What the queue pairs of reliable connections are set to, on links of these rates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from inalab.hosts import ethernet
from inalab.hosts.cores import enum, ffi
from inalab.hosts.roce.wire import BTH, ICRC_BYTES

SIZES = enum("rc_sizes")
PAYLOAD = 1024  # bytes: the largest MTU of InfiniBand's that fits into an Ethernet frame
HEADERS = ethernet.ETHERNET_BYTES + ethernet.IPV4_BYTES + ethernet.UDP_BYTES + BTH.itemsize + ICRC_BYTES
FRAME = PAYLOAD + HEADERS  # of a full packet that begins no write
ON_WIRE = FRAME + ethernet.PHYSICAL_BYTES
WINDOW = 64  # packets of a queue pair under way
ACK_TIMEOUT = 4.096e-6  # seconds, times a power of two (section 9.7.6.1.3)
CODE = 14  # of that power: 67 ms, at least
STUBBORN = 30.0  # seconds
UNIT = 8  # packets on the link that DCQCN's intervals are long


@dataclass(frozen=True)
class QueuePairs:
    """Of one job. Rates are in Mbit/s, of the links of all its nodes and their racks; 0 where one is not limited."""

    rates: tuple[float, ...]
    flows: int = 1  # that may share a link
    selective: bool = False
    dcqcn: bool = True

    def timeout(self) -> float:
        """Of an acknowledgment in seconds: longer than the windows of all flows take on the slowest link, which may queue there."""
        slowest = min((rate for rate in self.rates if rate), default=0.0)
        queue = 2 * self.flows * WINDOW * 8 * ON_WIRE / (slowest * 1e6) if slowest else 0.0
        return ACK_TIMEOUT * 2.0 ** max(CODE, math.ceil(math.log2(max(queue, ACK_TIMEOUT) / ACK_TIMEOUT)))

    def on(self, rate: float, patience: float) -> Any:
        """For a core, on a host whose link has this rate.

        It tries for as long as `patience`, in seconds, and STUBBORN: here an interface may be late that is alive. Of those that are
        not, the connection tells by which both ends met.
        """
        found = ffi.new("RcSettings *")
        octets = rate * 1e6 / 8
        found.payload, found.window, found.timeout = PAYLOAD, WINDOW, self.timeout()
        found.retries = math.ceil(max(patience, STUBBORN) / found.timeout)
        found.selective, found.rate, found.dcqcn = self.selective, octets, self.dcqcn and bool(rate)
        found.unit = UNIT * ON_WIRE / octets if rate else 0.0
        return found
