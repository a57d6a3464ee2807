"""Token buckets of rate-limited links."""

from __future__ import annotations

PHYSICAL_BYTES = 24  # preamble, FCS and gap, which HTB counts with every frame
BURST_SECONDS = 0.001


def burst(rate: float) -> int:
    """Bytes that a link of `rate` Mbit/s lets pass at once after a pause."""
    return max(1600, int(rate * 1e6 / 8 * BURST_SECONDS))
