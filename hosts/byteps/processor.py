"""What a service's processor takes (BytePS, OSDI '20, section 3): adding runs at the speed of memory, an optimizer does not.

Sums are as they are; the processor's time is a stated one, on top of what this machine takes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Speeds:
    """Bytes a second: of each worker's part that is added, and of a sum that an optimizer updates weights with."""

    adding: float = math.inf
    updating: float = math.inf

    @property
    def unlimited(self) -> bool:
        return math.isinf(self.adding) and math.isinf(self.updating)


class ServiceProcessor:
    """Does one thing after another. Times are in seconds."""

    def __init__(self, speeds: Speeds) -> None:
        self.speeds = speeds
        self.busy = 0.0  # until when

    def add(self, octets: int, now: float) -> float:
        """When so many bytes of a worker's are added that have come now."""
        return self._take(octets / self.speeds.adding, now)

    def update(self, octets: int, now: float) -> float:
        """When weights are updated with a sum of so many bytes that is there now."""
        return self._take(octets / self.speeds.updating, now)

    def _take(self, seconds: float, now: float) -> float:
        self.busy = max(self.busy, now) + seconds
        return self.busy
