"""A worker's congestion window (PAPERS.md, section 2): additive increase, halved on a mark or a loss."""

from __future__ import annotations

SMALLEST = 4.0  # chunks: one more than the results that show a gap


class CongestionWindow:
    """How many chunks may be under way. It starts open, and is halved at most once for the chunks of one window."""

    def __init__(self, largest: int, enabled: bool = True) -> None:
        self.largest, self.enabled = float(largest), enabled
        self.size = self.largest
        self.recover = 0  # chunks from here on were sent after the last cut

    def settled(self, chunks: int) -> None:
        """So many results have come: one chunk more for every whole window of them."""
        if self.enabled:
            self.size = min(self.size + chunks / self.size, self.largest)

    def congested(self, chunk: int, following: int) -> None:
        """The result of `chunk` is marked, or it is lost; `following` is the next chunk to be sent."""
        if self.enabled and chunk >= self.recover:
            self.size = max(self.size / 2, min(SMALLEST, self.largest))
            self.recover = following

    @property
    def chunks(self) -> int:
        return int(self.size)
