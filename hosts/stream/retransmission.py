"""The retransmission timeout (timer.c), for schemes and tests in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.cores import ffi, library, values


class RetransmissionTimer:
    """RFC 6298's estimator over batches of samples, in seconds, with exponential back-off; one for all chunks of a path."""

    def __init__(
        self, initial: float = 0.1, shortest: float = 0.01, longest: float = 1.0, margin: float = 1.0, most_growth: float = 4.0,
        of: Any = None,
    ) -> None:  # fmt: skip
        """`margin` is the least that a timeout is longer than a round trip, in round trips; the rest is in seconds.

        `most_growth` is how many times the shortest round trip of late is believed. `of`: an estimate that is there already.
        """
        self.c = ffi.new("Timer *") if of is None else of
        if of is None:
            library().timer_init(self.c, initial, shortest, longest, margin, most_growth)

    def sample(self, round_trips: NDArray[np.float64]) -> None:
        """Take in a batch of round-trip times, of chunks that no worker sent again (Karn's rule)."""
        library().timer_sample(self.c, ffi.from_buffer("double[]", np.ascontiguousarray(round_trips)), len(round_trips))

    def needless(self, now: float) -> None:
        """A result arrived twice at `now`: the estimate doubles until the next sample; many within one timeout count once."""
        library().timer_needless(self.c, now)

    @property
    def srtt(self) -> float:
        """The smoothed round-trip time."""
        return float(self.c.srtt)

    @property
    def variation(self) -> float:
        """The round-trip time's."""
        return float(self.c.variation)

    @property
    def timeouts(self) -> NDArray[np.float64]:
        """Of chunks that were sent once, twice and so on."""
        return values(self.c.timeouts, len(self.c.timeouts))

    @property
    def timeout(self) -> float:
        """Seconds until something is done about a chunk that was sent once."""
        return float(self.c.timeouts[0])
