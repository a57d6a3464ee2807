"""Property tests draw the same examples in every run by default, and many more in the profile `deep`."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties import CI, DEEP, DEEPER, FEW, MUTANTS, USUAL, examples


def drawn(profile: str) -> list[int]:
    """What a test of ten examples sees in a profile, another source of chance at each call."""
    settings.load_profile(profile)
    random.seed()
    seen: list[int] = []

    @examples(10)
    @given(st.integers(0, 2**60))
    def run(number: int) -> None:
        seen.append(number)

    run()
    return seen


@pytest.fixture(autouse=True)
def _back_to_default(request: pytest.FixtureRequest) -> object:
    yield
    settings.load_profile(request.config.getoption("--hypothesis-profile") or CI)


def test_the_default_draws_a_quarter_and_the_same_each_time() -> None:
    assert drawn(CI) == drawn(CI)
    assert len(drawn(CI)) == 10 * FEW // USUAL


def test_mutants_are_shown_the_same_examples() -> None:
    assert drawn(MUTANTS) == drawn(CI)


def test_deep_draws_more_and_other_ones() -> None:
    first, second = drawn(DEEP), drawn(DEEP)
    assert len(first) == len(second) == 10 * DEEPER
    assert first != second


def test_deep_draws_other_ones_in_ci_too() -> None:
    """Hypothesis takes the variable CI as a wish for the same examples in every run."""
    code = "from tests.properties import DEEP, register_profiles; register_profiles(); from hypothesis import settings;"
    code += "assert not settings.get_profile(DEEP).derandomize"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "CI": "true"}, check=True)
