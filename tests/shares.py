"""Equal shares of a list: the third tenth, 3/10."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def share(whole: Sequence[T], text: str) -> Sequence[T]:
    """The share of a list that is called I/N, spread over all of it. ValueError, in one sentence, if it is none."""
    first, _, second = text.partition("/")
    if not (first.isdecimal() and second.isdecimal() and 1 <= int(first) <= int(second)):
        raise ValueError(f"{text} is no share: give I/N with I from 1 to N, for example 3/10")
    return whole[int(first) - 1 :: int(second)]
