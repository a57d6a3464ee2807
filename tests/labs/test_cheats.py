"""Cheats that are about one lab: none has the points that it is after. What is about all labs is in test_attacks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from inalab.testbed.lab import catalogue
from inalab.testbed.lab.check import check
from tests.labs.cheats import Cheat, all_cheats, write

LEAST = 5


@pytest.mark.parametrize("cheat", all_cheats(), ids=lambda c: f"{c.lab}: {c.name}")
def test_a_cheat_has_no_points(cheat: Cheat, tmp_path: Path) -> None:
    lab = catalogue.load(cheat.lab)
    (task,) = [t for t in lab.tasks if t.name == cheat.task]
    (outcome,) = check(replace(lab, tasks=[task]), write(cheat, tmp_path))
    found = f"{outcome.message}\n{outcome.trace}\n{outcome.output}"
    assert outcome.points == 0, found
    assert cheat.says in found


@pytest.mark.parametrize("name", catalogue.names())
def test_enough_cheats_are_tried(name: str) -> None:
    assert Counter(c.lab for c in all_cheats())[name] >= LEAST
