"""What links do to packets other than losing them, by a hash of (seed, packet number): the embedded switch's set_disorder."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .control import Control
from .loss import link_seed, mix, threshold

DIRECTIONS = (0, 1)  # into the switch, out of it
HOLD = 5.0  # ms, unless set
STREAM = 0x2545F491  # of random numbers that are not those of losses


@dataclass(frozen=True)
class Disorder:
    """On one direction of a link. A packet is held back for `hold` ms with the probability `reorder`, and those behind it overtake
    it. With the probability `duplicate` a copy comes that much later. All take up to `jitter` ms longer, and stay in order."""

    reorder: float = 0.0
    duplicate: float = 0.0
    hold: float = 0.0
    jitter: float = 0.0


def set_disorder(port: int, disorder: Disorder, seed: int, link: int) -> list[str]:
    """Both directions of the link at this port, from now on; without anything, they are in order again."""
    shares = f"{threshold(disorder.reorder)} {threshold(disorder.duplicate)}"
    times = f"{round(1000 * disorder.hold)} {round(1000 * disorder.jitter)}"
    return [
        f"set_disorder {direction} {port} {mix(link_seed(seed, link, direction) ^ STREAM)} {shares} {times}"
        for direction in DIRECTIONS
    ]


def counted(control: Control) -> tuple[int, int]:
    """Packets that the switch's links have held back, and those that came twice."""
    shown = control.command("show_disorder")
    held, doubled = (sum(map(int, re.findall(rf"{what}=(\d+)", shown))) for what in ("held", "doubled"))
    return held, doubled
