"""What a worker sent and received, in bins of 10 ms: the packets-over-time figures of the field."""

from __future__ import annotations

from dataclasses import dataclass, field

BIN = 0.01  # seconds


@dataclass
class Timeline:
    """Packets by bins of the stream's clock; `outstanding` is how many slots wait for a result at the end of a bin."""

    bins: dict[int, list[int]] = field(default_factory=dict)  # first transmissions, retransmissions, results, outstanding

    def note(self, now: float, outstanding: int, sent: int = 0, again: int = 0, results: int = 0) -> None:
        """Count packets at this moment."""
        counts = self.bins.setdefault(int(now / BIN), [0, 0, 0, 0])
        counts[0] += sent
        counts[1] += again
        counts[2] += results
        counts[3] = outstanding

    def since(self, start: float) -> list[tuple[float, int, int, int, int]]:
        """(seconds since `start`, sent, again, results, outstanding) of each bin in which something happened."""
        return [(round(number * BIN - start, 3), *counts) for number, counts in sorted(self.bins.items())]  # type: ignore[misc]
