"""The retransmission timeout: RFC 6298's estimator over batches of samples, with exponential back-off per slot."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

REMEMBERED = 64  # batches whose round trips are compared
MOST_GROWTH = 4  # times the shortest of them
MOST_BACKOFF = 2  # doublings of a timeout


class RetransmissionTimer:
    """Smoothed round-trip time and its variation, in seconds; one estimate for all slots.

    Karn's rule is the caller's: samples come from chunks that no worker sent again. A timeout that is too short would then
    never let a sample through; so whenever a result arrives twice, which shows that sending again was needless, the
    estimate stays doubled until the next sample. A chunk's own back-off ends at four times the timeout: at most one
    window is ever under way, so what is sent again cannot flood a link, and a burst that lasts for some packets
    should not cost seconds.
    """

    def __init__(self, initial: float = 0.1, shortest: float = 0.01, longest: float = 1.0) -> None:
        self.srtt = 0.0
        self.variation = 0.0
        self.recent: deque[float] = deque(maxlen=REMEMBERED)
        self.doublings = 0
        self.doubled_at = 0.0
        self.initial, self.shortest, self.longest = initial, shortest, longest

    def sample(self, round_trips: NDArray[np.float64]) -> None:
        """Take in a batch of round-trip times: RFC 6298 section 2, on the batch's median and weighted by its size.

        Round trips beyond some multiple of the shortest of late count as that: a worker that waits for one chunk sends the
        next one of the slot late, so at high loss most round trips contain somebody's timeout, marked or not.
        """
        n = len(round_trips)
        if not n:
            return
        self.doublings = 0
        self.recent.append(float(np.median(round_trips)))
        believable = np.minimum(round_trips, MOST_GROWTH * min(self.recent))
        r = float(np.median(believable))
        if self.srtt == 0.0:
            self.srtt, self.variation = r, r / 2
            return
        if r < self.srtt:  # down at once: what is long contains somebody's waiting, what is short does not
            weight = 1 - (1 - 1 / 4) ** n
            self.variation += (min(self.srtt - r, self.variation, r) - self.variation) * weight
        else:
            weight = 1 - (1 - 1 / 32) ** n
            self.variation += (float(np.median(np.abs(believable - self.srtt))) - self.variation) * (1 - (1 - 1 / 16) ** n)
        self.srtt += (r - self.srtt) * weight

    def needless(self, now: float) -> None:
        """A result arrived twice at `now`; many within one timeout count once."""
        if now - self.doubled_at >= self.timeout:
            self.doublings = min(self.doublings + 1, MOST_BACKOFF)
            self.doubled_at = now

    @property
    def timeout(self) -> float:
        """Seconds until a chunk that was sent once is sent again.

        Never less than two round trips: where the window fills a slow link the round trip is all queue and hardly varies,
        and what others send again, up to a window, doubles it.
        """
        margin = max(4 * self.variation, self.srtt)
        estimate = self.initial if self.srtt == 0.0 else max(self.srtt + margin, self.shortest)
        return float(min(estimate * 2**self.doublings, self.longest))

    def after(self, tries: NDArray[np.int64]) -> NDArray[np.float64]:
        """Timeouts of chunks that were sent `tries` + 1 times."""
        return np.minimum(self.timeout * np.exp2(np.minimum(tries, MOST_BACKOFF)), self.longest)
