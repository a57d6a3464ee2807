"""Epochs: which group of a job a packet belongs to.

The workers of a job draw an epoch whenever they form a group, and every packet carries it. Switches, servers and workers
refuse what is of another epoch, so nothing that an earlier group left behind, on its way or in a register, can reach a later
sum. An epoch is a moment: sixteenths of a second of the clock, modulo 2^32. `draw` ends in a later sixteenth than it began,
so an epoch is newer than any that was drawn before, also by processes that are gone. They are compared as serial numbers
(RFC 1982), so the order holds for groups that begin within four years of each other.
"""

from __future__ import annotations

import time

TICKS = 16  # a second
EPOCHS = 1 << 32
NONE = 0


def draw() -> int:
    """A new epoch; takes up to a sixteenth of a second."""
    epoch = NONE
    while epoch == NONE:
        tick = int(time.time() * TICKS) + 1
        while (left := tick / TICKS - time.time()) > 0:
            time.sleep(left)
        epoch = tick % EPOCHS
    return epoch


def newer(epoch: int, other: int) -> bool:
    """Whether an epoch is newer than another, or the other is none."""
    return other == NONE or 0 < (epoch - other) % EPOCHS < EPOCHS // 2
