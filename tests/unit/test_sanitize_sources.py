"""P4 texts with changes compile or are refused in a sentence; tests.sanitize.sources tries more of them."""

from __future__ import annotations

from tests.sanitize import sources


def test_changed_programs_compile_or_are_refused_in_a_sentence() -> None:
    ends, wrong = sources.run(150, seed=3)
    assert wrong == [] and ends["refused"] > 50 and ends["compiled"] > 0
