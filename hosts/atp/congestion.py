"""A worker's congestion window (PAPERS.md, section 2): additive increase, halved on a mark or a loss.

A chunk of which one worker's packet has found its aggregator taken and another's has not looks lost too, until its result
says so. The window is restored then, as TCP does after a time-out that proves needless (RFC 4015).
"""

from __future__ import annotations

SMALLEST = 4.0  # chunks: one more than the results that show a gap


class CongestionWindow:
    """How many chunks may be under way. It starts open, and is halved at most once for the chunks of one window."""

    def __init__(self, largest: int, enabled: bool = True) -> None:
        self.largest, self.enabled = float(largest), enabled
        self.size = self.largest
        self.recover = 0  # chunks from here on were sent after the last cut
        self.suspects: dict[int, float] = {}  # chunks that seemed lost when the window was cut, and its size before

    def settled(self, chunks: int) -> None:
        """So many results have come: one chunk more for every whole window of them."""
        if self.enabled:
            self.size = min(self.size + chunks / self.size, self.largest)

    def congested(self, chunk: int, following: int) -> bool:
        """The result of `chunk` is marked; `following` is the next chunk to be sent. Whether the window was cut."""
        if not self.enabled or chunk < self.recover:
            return False
        self.size = max(self.size / 2, min(SMALLEST, self.largest))
        self.recover = following
        return True

    def lost(self, chunk: int, following: int) -> None:
        """`chunk` seems to be lost."""
        before = self.size
        if self.congested(chunk, following):
            self.suspects = {chunk: before}

    def collided(self, chunk: int) -> None:
        """`chunk` was not lost: a part of it had found its aggregator taken."""
        self.size = max(self.size, self.suspects.pop(chunk, 0.0))

    @property
    def chunks(self) -> int:
        return int(self.size)
