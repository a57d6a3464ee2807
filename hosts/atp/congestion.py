"""What halves an ATP worker's congestion window (congestion.c)."""

from __future__ import annotations

MARKS, PAPER, NONE = CONTROLS = ("marks", "paper", "none")  # marks; marks and losses; nothing
