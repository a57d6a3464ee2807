"""Every lab's check: full points for the solution, few for the starter, and each mistake caught by the task that is about it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inalab.testbed.lab import catalogue, figures
from inalab.testbed.lab.check import check
from inalab.testbed.lab.confinement import GIVEN, possible
from tests.labs.wrong import Wrong, all_wrong, write

LABS = catalogue.names()
TIMED = ("10-scheme",)  # labs whose trials take real time
FEW = 0.25  # of the points, for a starter
LEAST_WRONG = 5
INDEPENDENT = sorted((Path(__file__).parent / "independent").glob("*/*"))


def test_programs_are_confined_where_the_tests_run() -> None:
    assert possible(), "bubblewrap is missing, or the kernel allows no user namespaces: the labs' confinement is not tested"


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.quiet if name in TIMED else ()) for name in LABS])
def test_the_solution_has_full_points(name: str) -> None:
    for outcome in check(catalogue.load(name), catalogue.SOLUTIONS / name):
        assert outcome.passed, f"{outcome.task}: {outcome.message}\n{outcome.trace}\n{outcome.output}"


@pytest.mark.parametrize("folder", INDEPENDENT, ids=lambda f: f"{f.parent.name}: {f.name}")
def test_a_solution_by_somebody_else_has_full_points(folder: Path) -> None:
    """They were written from the README alone, in other styles than the reference."""
    for outcome in check(catalogue.load(folder.parent.name), folder):
        assert outcome.passed, f"{outcome.task}: {outcome.message}\n{outcome.trace}\n{outcome.output}"


def test_what_every_lab_can_import_solves_none() -> None:
    """Programs of any lab find labs/given: a worker that one lab gives must not be what another one asks for."""
    solutions = {path.read_text().partition("\n")[2] for path in catalogue.SOLUTIONS.glob("*/*")}
    assert not solutions & {path.read_text().partition("\n")[2] for path in GIVEN.iterdir() if path.is_file()}


@pytest.mark.parametrize("name", LABS)
def test_the_starter_has_few_points_and_says_what_is_missing(name: str, tmp_path: Path) -> None:
    catalogue.begin(name, tmp_path / "work")
    outcomes = list(check(catalogue.load(name), tmp_path / "work"))
    assert sum(o.points for o in outcomes) <= FEW * sum(o.most for o in outcomes)
    assert all(o.message for o in outcomes if not o.passed)


@pytest.mark.parametrize("wrong", all_wrong(), ids=lambda w: f"{w.lab}: {w.name}")
def test_a_mistake_is_caught_by_the_task_that_is_about_it(wrong: Wrong, tmp_path: Path) -> None:
    lab = catalogue.load(wrong.lab)
    (task,) = [t for t in lab.tasks if t.name == wrong.task]
    (outcome,) = check(replace(lab, tasks=[task]), write(wrong, tmp_path))
    assert not outcome.passed, "the mistake is not noticed"
    assert wrong.says in f"{outcome.message}\n{outcome.trace}\n{outcome.output}"


@pytest.mark.parametrize("name", LABS)
def test_enough_mistakes_are_tried(name: str) -> None:
    assert Counter(w.lab for w in all_wrong())[name] >= LEAST_WRONG


@pytest.mark.parametrize("name", LABS)
def test_a_lab_is_worth_100_points_and_its_parts_are_there(name: str) -> None:
    lab, folder = catalogue.load(name), catalogue.LABS / name
    assert lab.points == 100
    assert (folder / "README.md").is_file()
    for file in lab.files:
        assert (folder / "starter" / file).is_file()
        assert (catalogue.SOLUTIONS / name / file).is_file()


@pytest.mark.parametrize("name", LABS)
def test_the_figure_draws_what_the_reference_measured(name: str, tmp_path: Path) -> None:
    measured = json.loads(json.dumps(figures.measured(name, catalogue.SOLUTIONS / name)))
    assert measured.keys() == figures.reference(name).keys()
    if not catalogue.plot(name).noisy:  # machines add floats in other orders when they train
        assert list(_numbers(measured)) == pytest.approx(list(_numbers(figures.reference(name))), rel=1e-6, abs=0.02)
    catalogue.plot(name).draw(measured, figures.reference(name)).savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def _numbers(measured: Any) -> Iterator[float]:
    if isinstance(measured, dict):
        measured = list(measured.values())
    if isinstance(measured, list):
        for part in measured:
            yield from _numbers(part)
    else:
        yield measured
