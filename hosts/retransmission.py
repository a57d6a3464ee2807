"""The retransmission timeout: RFC 6298's estimator over batches of samples, with exponential back-off per slot."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class RetransmissionTimer:
    """Smoothed round-trip time and its variation, in seconds; one estimate for all slots.

    Karn's rule is the caller's: samples come from chunks that were sent once. Its other half is here: after a timeout
    the estimate stays doubled until the next sample (RFC 6298, 5.5 to 5.7), or a timeout that is too short would
    never let one through.
    """

    def __init__(self, initial: float = 0.1, shortest: float = 0.01, longest: float = 1.0) -> None:
        self.srtt = 0.0
        self.variation = 0.0
        self.doublings = 0
        self.doubled_at = 0.0
        self.initial, self.shortest, self.longest = initial, shortest, longest

    def sample(self, round_trips: NDArray[np.float64]) -> None:
        """Take in a batch of round-trip times: RFC 6298 section 2, on the batch's median and weighted by its size.

        The median, because a chunk's round trip also contains the time-outs of other workers' lost packets. Taken in,
        those would raise the timeout, which would lengthen the next ones, and so on.
        """
        n = len(round_trips)
        if not n:
            return
        self.doublings = 0
        r = float(np.median(round_trips))
        if self.srtt == 0.0:
            self.srtt, self.variation = r, r / 2
            return
        spread = float(np.median(np.abs(round_trips - self.srtt)))
        self.variation += (spread - self.variation) * (1 - (1 - 1 / 16) ** n)
        self.srtt += (r - self.srtt) * (1 - (1 - 1 / 32) ** n)

    def timed_out(self, now: float) -> None:
        """A timer ran out at `now`; many that run out within one timeout count once."""
        if now - self.doubled_at >= self.timeout:
            self.doublings = min(self.doublings + 1, 10)
            self.doubled_at = now

    @property
    def timeout(self) -> float:
        """Seconds until a chunk that was sent once is sent again."""
        estimate = self.initial if self.srtt == 0.0 else max(self.srtt + 4 * self.variation, self.shortest)
        return min(estimate * 2**self.doublings, self.longest)

    def after(self, tries: NDArray[np.int64]) -> NDArray[np.float64]:
        """Timeouts of chunks that were sent `tries` + 1 times: doubled at each, up to the longest."""
        return np.minimum(self.timeout * np.exp2(np.minimum(tries, 10)), self.longest)
