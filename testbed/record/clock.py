"""Times in words."""

from __future__ import annotations


def time_left(seconds: float) -> str:
    """About how long something still takes."""
    return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"
