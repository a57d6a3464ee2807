"""What comes over a TCP connection, put in its order."""

from __future__ import annotations

from inalab.testbed.virtual.frames import MOST_BLOCKS


class Reassembly:
    """Of one direction. Positions count from 0; the end itself counts as a byte."""

    def __init__(self) -> None:
        self.expected = 0  # all before this has come
        self.apart: dict[int, bytes] = {}  # what came out of order, by its beginning
        self.latest = 0  # the beginning of what came last of it
        self.end: int | None = None  # behind the last byte
        self.ended = False  # all has come

    def has(self, begin: int, end: int) -> bool:
        """Whether all of this has come."""
        return end <= self.expected or any(b <= begin and end <= b + len(its) for b, its in self.apart.items())

    def take(self, begin: int, octets: bytes, ends: bool) -> tuple[bytes, bool]:
        """What now follows in its order, and whether the sender had better know at once (RFC 5681, section 4.2)."""
        if ends:
            self.end = begin + len(octets)
        if begin > self.expected:
            self.apart[begin] = octets
            self.latest = begin
            return b"", True
        fresh = octets[self.expected - begin :]
        at_once = bool(self.apart) or self.ended or not (fresh or ends)
        self.expected += len(fresh)
        while self.apart and (following := self._following()):
            self.expected += len(following)
            fresh += following
        if self.end == self.expected and not self.ended:
            self.expected += 1
            self.ended = at_once = True
        return fresh, at_once

    def _following(self) -> bytes:
        """What came out of order and follows now."""
        for begin in sorted(self.apart):
            if begin > self.expected:
                break
            if rest := self.apart.pop(begin)[self.expected - begin :]:
                return rest
        return b""

    def blocks(self) -> list[tuple[int, int]]:
        """What came out of order, joined; what came last is first (RFC 2018)."""
        joined: list[tuple[int, int]] = []
        for begin in sorted(self.apart):
            end = begin + len(self.apart[begin])
            end += end == self.end
            if joined and begin <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(joined[-1][1], end)
            else:
                joined.append((begin, end))
        return sorted(joined, key=lambda each: not each[0] <= self.latest < each[1])[:MOST_BLOCKS]
