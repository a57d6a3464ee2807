"""The kinds of tests/interleavings.py, with some scripts of each."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.interleavings import KINDS


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_scripts_of_every_kind_find_no_difference(kind: Callable[[random.Random], None]) -> None:
    for number in range(3):
        kind(random.Random(number))
