"""Sums of floats as processors make them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def add(total: NDArray[Any], part: NDArray[Any]) -> None:
    """Add in place. That infinities of both signs make no number, and large ones infinity, is the sum's to show, as in torch."""
    with np.errstate(over="ignore", invalid="ignore"):
        total += part
