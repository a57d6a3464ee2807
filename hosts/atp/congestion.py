"""A worker's congestion window: additive increase, halved on a mark, in the paper's way also on a loss.

Where switches mark before they drop, a loss without a mark says nothing of queues. In the paper's way a chunk of which one
worker's packet has found its aggregator taken and another's has not looks lost too, until its result says so. The window is
restored then, as TCP does after a timeout that proves needless (RFC 4015).
"""

from __future__ import annotations

SMALLEST = 4.0  # chunks: one more than the results that show a gap
MARKS, PAPER, NONE = CONTROLS = ("marks", "paper", "none")  # what halves the window: marks; marks and losses; nothing


class CongestionWindow:
    """How many chunks may be under way. It starts open, and is halved at most once for the chunks of one window."""

    def __init__(self, largest: int, control: str = MARKS) -> None:
        """`control` is one of CONTROLS."""
        self.largest, self.control = float(largest), control
        self.size = self.largest
        self.recover = 0  # packets from here on were sent after the last cut
        self.suspects: dict[int, float] = {}  # chunks that seemed lost when the window was cut, and its size before

    def settled(self, chunks: int) -> None:
        """So many results have come: one chunk more for every whole window of them."""
        self.size = min(self.size + chunks / self.size, self.largest)

    def congested(self, number: int, following: int) -> None:
        """A result is marked, of the packet with this number; `following` is that of the next packet."""
        if self.control != NONE:
            self._halve(number, following)

    def lost(self, chunk: int, number: int, following: int) -> None:
        """`chunk`, whose packet has this number, seems to be lost."""
        before = self.size
        if self.control == PAPER and self._halve(number, following):
            self.suspects = {chunk: before}

    def collided(self, chunk: int) -> None:
        """`chunk` was not lost: a part of it had found its aggregator taken."""
        self.size = max(self.size, self.suspects.pop(chunk, 0.0))

    def _halve(self, number: int, following: int) -> bool:
        """Whether the window was cut: not if this packet was sent before the last cut."""
        if number < self.recover:
            return False
        self.size = max(self.size / 2, min(SMALLEST, self.largest))
        self.recover = following
        return True

    @property
    def chunks(self) -> int:
        return int(self.size)
