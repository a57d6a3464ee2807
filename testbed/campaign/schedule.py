"""Which slot runs which trial next: the trials of a block on one machine, in an order that rotates from block to block.

A block is what is compared in pairs: all points of a sweep with one seed. A slot is what runs one trial at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

MOST_LOST = 3  # slots that may be lost with the same trial before it counts as failed


@dataclass(frozen=True)
class Work:
    """A trial to run: its identity, its name for people, and its block's number."""

    identity: str
    name: str
    block: int


class Schedule:
    """What is left of blocks, each of which one slot works through."""

    def __init__(self, blocks: Sequence[Sequence[Work]]) -> None:
        """The first trial to run of block b is its b-th: what warms a machine up, or tires it, hits each point as often."""
        rotated = [[*block[n % len(block) :], *block[: n % len(block)]] for n, block in enumerate(blocks) if block]
        self.waiting = deque(deque(block) for block in rotated)  # blocks that no slot has
        self.held: dict[str, deque[Work]] = {}  # by slot: the rest of its block
        self.running: dict[str, Work] = {}
        self.lost: dict[str, int] = {}  # by identity: slots that ended with it

    def next_for(self, slot: str) -> Work | None:
        """Begin a trial on a slot that is idle; None if there is nothing for it."""
        if not self.held.get(slot):
            if not self.waiting:
                return None
            self.held[slot] = self.waiting.popleft()
        work = self.running[slot] = self.held[slot].popleft()
        return work

    def ended(self, slot: str) -> Work:
        """A slot's trial has ended, whatever came of it."""
        return self.running.pop(slot)

    def gone(self, slot: str) -> Work | None:
        """A slot is no more, and its block is another's, the trial under way first. That trial, if it has had enough slots."""
        rest = self.held.pop(slot, deque())
        work, given_up = self.running.pop(slot, None), None
        if work is not None:
            self.lost[work.identity] = self.lost.get(work.identity, 0) + 1
            if self.lost[work.identity] < MOST_LOST:
                rest.appendleft(work)
            else:
                given_up = work
        if rest:
            self.waiting.appendleft(rest)
        return given_up

    @property
    def left(self) -> int:
        """Trials that have not ended."""
        return sum(map(len, self.waiting)) + sum(map(len, self.held.values())) + len(self.running)
