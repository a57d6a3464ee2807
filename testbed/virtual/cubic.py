"""CUBIC (RFC 9438) with HyStart (Ha and Rhee, 2011), as Linux has them: how many segments a connection may have under way."""

from __future__ import annotations

INITIAL = 10.0  # segments (RFC 6928)
LEAST = 2.0
SCALE, DECREASE = 0.4, 0.7  # C and β of RFC 9438
GROWTH = 3 * (1 - DECREASE) / (1 + DECREASE)  # segments a round trip with which Reno would be as fast (section 4.3)
CONVERGENCE = (1 + DECREASE) / 2  # section 4.7
FASTEST, SLOWEST = 1.5, 0.01  # growth towards the target in a round trip, as shares of the window
HYSTART_FROM = 16  # segments
SAMPLES = 8  # of round trips that begin a round
EARLIEST, LATEST = 0.004, 0.016  # seconds by which a round trip is longer where a queue grows: an eighth of it, within these
TRAIN = 0.002  # seconds between acknowledgments of one train
SMOOTHED = 0.001  # seconds that are allowed for acknowledgments of several segments


class Cubic:
    """A window, in segments."""

    def __init__(self) -> None:
        self.window, self.threshold = INITIAL, float("inf")
        self.largest = 0.0  # W_max
        self.epoch: float | None = None  # when the avoidance of congestion began
        self.offset = self.reno = 0.0  # K, and W_est
        self.shortest = float("inf")  # seconds of a round trip
        self.round_end = 0  # HyStart's round ends with what is sent before this
        self.round_began = self.last = self.least = 0.0
        self.samples = 0

    @property
    def slow_start(self) -> bool:
        return self.window < self.threshold

    def acknowledged(self, segments: int, now: float) -> None:
        """So many segments have come, and the window was full."""
        if self.slow_start:
            grown = min(self.window + segments, self.threshold)
            segments -= round(grown - self.window)
            self.window = grown
        if segments > 0 and not self.slow_start:
            self._avoid(segments, now)

    def _avoid(self, segments: int, now: float) -> None:
        if self.epoch is None:
            self.epoch, self.reno = now, self.window
            self.largest = max(self.largest, self.window)
            self.offset = ((self.largest - self.window) / SCALE) ** (1 / 3)
        trip = 0.0 if self.shortest == float("inf") else self.shortest
        target = self.largest + SCALE * (now - self.epoch + trip - self.offset) ** 3
        growth = min(max(target / self.window - 1, SLOWEST / self.window), FASTEST - 1)
        self.reno += GROWTH * segments / self.window
        self.window = max(self.window + segments * growth, self.reno)

    def round_trip(self, seconds: float, now: float, acknowledged: int, sent: int) -> None:
        """A segment's; all is acknowledged before the one, and sent before the other. Ends slow start where a queue grows."""
        self.shortest = min(self.shortest, seconds)
        if not self.slow_start:
            return
        if acknowledged > self.round_end:
            self.round_end, self.round_began, self.last, self.least, self.samples = sent, now, now, float("inf"), 0
        if self.window < HYSTART_FROM:
            return
        train = now - self.last <= TRAIN
        if train:
            self.last = now
        if self.samples < SAMPLES:
            self.least, self.samples = min(self.least, seconds), self.samples + 1
        elif self.least > self.shortest + min(max(self.shortest / 8, EARLIEST), LATEST):
            self.threshold = self.window
        if train and now - self.round_began > (self.shortest + SMOOTHED) / 2:
            self.threshold = self.window

    def lost(self) -> None:
        """A loss was noticed, the first in a window."""
        self.epoch = None
        self.largest = self.window * (CONVERGENCE if self.window < self.largest else 1.0)
        self.threshold = max(LEAST, self.window * DECREASE)

    def paused(self, seconds: float, timeout: float) -> None:
        """Nothing was under way for so long: the window halves with every timeout that has passed, and time stands still."""
        while seconds > timeout and self.window > INITIAL:
            seconds -= timeout
            self.threshold = max(self.threshold, 0.75 * self.window) if self.threshold < float("inf") else self.threshold
            self.window = max(self.window / 2, INITIAL)
        if self.epoch is not None:
            self.epoch += seconds
