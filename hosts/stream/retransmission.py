"""The retransmission timeout: RFC 6298's estimator over batches of samples, with exponential back-off per slot."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.compiled import compiled

REMEMBERED = 64  # batches whose round trips are compared
MOST_GROWTH = 4  # times the shortest of them
MOST_BACKOFF = 2  # doublings of a timeout


class RetransmissionTimer:
    """Smoothed round-trip time and its variation, in seconds; one estimate for all slots.

    Karn's rule is the caller's: samples come from chunks that no worker sent again. A timeout that is too short would then
    never let a sample through; so when a result arrives twice, which shows that sending again, or asking, was needless, the
    caller may have the estimate doubled until the next sample. A chunk's own back-off ends at four times the timeout: at most one
    window is ever under way, so what is sent again cannot flood a link, and a burst that lasts for some packets
    should not cost seconds.
    """

    def __init__(
        self, initial: float = 0.1, shortest: float = 0.01, longest: float = 1.0, margin: float = 1.0,
        most_growth: float = MOST_GROWTH,
    ) -> None:  # fmt: skip
        """`margin` is the least that a timeout is longer than a round trip, in round trips; the rest is in seconds.

        `most_growth` is how many times the shortest round trip of late is believed.
        """
        self.srtt = 0.0
        self.variation = 0.0
        self.recent: deque[float] = deque(maxlen=REMEMBERED)
        self.doublings = 0
        self.doubled_at = 0.0
        self.most_growth = most_growth
        self.initial, self.shortest, self.longest, self.margin = initial, shortest, longest, margin
        self.timeouts = np.empty(MOST_BACKOFF + 1)  # by how often a chunk was sent again; more often does not change it
        self._set()

    def sample(self, round_trips: NDArray[np.float64]) -> None:
        """Take in a batch of round-trip times: RFC 6298 section 2, on the batch's median and weighted by its size.

        Round trips beyond some multiple of the shortest of late count as that: a worker that waits for one chunk sends the
        next one of the slot late, so at high loss most round trips contain somebody's timeout, marked or not.
        """
        n = len(round_trips)
        if not n:
            return
        self.doublings = 0
        median = upper_median(round_trips)
        self.recent.append(median)
        believable = self.most_growth * min(self.recent)
        r = min(median, believable)
        if self.srtt == 0.0:
            self.srtt, self.variation = r, r / 2
        elif r < self.srtt:  # down at once: what is long contains somebody's waiting, what is short does not
            weight = 1 - (1 - 1 / 4) ** n
            self.variation += (min(self.srtt - r, self.variation, r) - self.variation) * weight
            self.srtt += (r - self.srtt) * weight
        else:
            distance = median_distance(round_trips, believable, self.srtt)
            self.variation += (distance - self.variation) * (1 - (1 - 1 / 16) ** n)
            self.srtt += (r - self.srtt) * (1 - (1 - 1 / 32) ** n)
        self._set()

    def needless(self, now: float) -> None:
        """A result arrived twice at `now`; many within one timeout count once."""
        if now - self.doubled_at >= self.timeout:
            self.doublings = min(self.doublings + 1, MOST_BACKOFF)
            self.doubled_at = now
            self._set()

    def _set(self) -> None:
        """Set the timeouts of chunks that were sent once, twice and so on.

        Where that is to send it again, two round trips at least: where the window fills a slow link the round trip is all queue
        and hardly varies, and what others send again, up to a window, doubles it.
        """
        margin = max(4 * self.variation, self.margin * self.srtt)
        estimate = self.initial if self.srtt == 0.0 else max(self.srtt + margin, self.shortest)
        once = min(estimate * 2**self.doublings, self.longest)
        for tries in range(MOST_BACKOFF + 1):
            self.timeouts[tries] = min(once * 2**tries, self.longest)

    @property
    def timeout(self) -> float:
        """Seconds until something is done about a chunk that was sent once."""
        return float(self.timeouts[0])


@compiled("f8(f8[::1])")
def upper_median(values: NDArray[np.float64]) -> float:
    """The greater of the two in the middle of an even number of values."""
    middle: float = np.sort(values)[len(values) // 2]
    return middle


@compiled("f8(f8[::1], f8, f8)")
def median_distance(values: NDArray[np.float64], most: float, centre: float) -> float:
    """The upper median of the values' distances from a centre; values count up to `most`."""
    middle: float = np.sort(np.abs(np.minimum(values, most) - centre))[len(values) // 2]
    return middle
