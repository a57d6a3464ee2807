"""What halves an ATP worker's congestion window (congestion.c)."""

from __future__ import annotations

# marks; marks and losses; nothing; marks, and collisions a window of their own
MARKS, PAPER, NONE, A2TP = CONTROLS = ("marks", "paper", "none", "a2tp")
