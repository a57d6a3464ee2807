"""What others read: Gradescope's results.json, and grades as nbgrader exports them. Their rules are written down here."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from inalab.testbed.lab import grading
from inalab.testbed.lab.lab import Outcome, Report

Format = Literal["text", "html", "simple_format", "md", "ansi"]
Visibility = Literal["hidden", "after_due_date", "after_published", "visible"]
Number = Annotated[float, Field(allow_inf_nan=False)]
REPORT = Report("01-forward", "anna", [Outcome("one", 10, 10), Outcome("two", 2.5, 10, "too slow", "a trace", "printed")])
NONE = Report("?", "ben", [Outcome("submission", 0, 0, "ben is no lab")])


class Strict(BaseModel):
    """These fields, of these types, and no other."""

    model_config = ConfigDict(strict=True, extra="forbid")


class GradescopeTest(Strict):
    """A test case of results.json (Autograder Specifications, "Output format")."""

    score: Number
    max_score: Number | None = None
    status: Literal["passed", "failed"] | None = None
    name: str | None = None
    name_format: Format | None = None
    number: str | None = None
    output: str | None = None
    output_format: Format | None = None
    tags: list[str] | None = None
    visibility: Visibility | None = None
    extra_data: dict[str, Any] | None = None


class Gradescope(Strict):
    """results.json. A score for all is one, or each test has its own."""

    score: Number | None = None
    execution_time: Number | None = None
    output: str | None = None
    output_format: Format | None = None
    test_output_format: Format | None = None
    test_name_format: Format | None = None
    visibility: Visibility | None = None
    stdout_visibility: Visibility | None = None
    extra_data: dict[str, Any] | None = None
    tests: list[GradescopeTest] | None = None
    leaderboard: list[dict[str, Any]] | None = None


@pytest.mark.parametrize("report", [REPORT, NONE], ids=["graded", "no lab"])
def test_results_keep_to_gradescopes_specification(report: Report, tmp_path: Path) -> None:
    read = Gradescope.model_validate_json(grading.write_gradescope(report, tmp_path / "anna").read_text())
    assert read.tests and read.score == sum(test.score for test in read.tests)
    assert all(0 <= test.score <= (test.max_score or 0) for test in read.tests)
    assert [test.number for test in read.tests] == [str(n) for n in range(1, len(read.tests) + 1)]


@pytest.mark.parametrize(
    "wrong", ['"score": "10"', '"score": NaN', '"score": 1, "visibility": "always"', '"score": 1, "points": 1']
)
def test_the_rules_refuse_what_gradescope_does_not_define(wrong: str) -> None:
    with pytest.raises(ValidationError):
        Gradescope.model_validate_json(f"{{{wrong}}}")


def test_what_gradescope_shows_a_student_is_why_points_are_lost() -> None:
    first, second = grading.gradescope(REPORT)["tests"]
    assert (first["status"], first["output"]) == ("passed", "")
    assert (second["status"], second["output"]) == ("failed", "too slow\n\na trace\n\nThe program printed:\nprinted")
    assert grading.gradescope(NONE)["tests"][0]["output"] == "ben is no lab"


def test_the_table_has_the_columns_of_nbgraders_export(tmp_path: Path) -> None:
    """nbgrader's CsvExportPlugin: one row a student and assignment, empty where nothing is known, score = raw score - penalty."""
    folder = tmp_path / "submitted/anna, b/01-forward"
    folder.mkdir(parents=True)
    (folder / "timestamp.txt").write_text("2026-11-28 10:00:00.123456 UTC\n")
    reports = [Report("01-forward", str(folder), REPORT.outcomes), NONE]
    with open(grading.write_table(reports, ["anna, b", "ben"], tmp_path / "grades"), newline="") as opened:
        (row,) = csv.DictReader(opened)
    assert list(row) == [
        "assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email",
        "raw_score", "late_submission_penalty", "score", "max_score",
    ]  # fmt: skip
    assert (row["assignment"], row["student_id"], row["timestamp"]) == ("01-forward", "anna, b", "2026-11-28 10:00:00.123456 UTC")
    assert float(row["score"]) == float(row["raw_score"]) - float(row["late_submission_penalty"]) == 12.5
    assert float(row["max_score"]) == 20


def test_a_timestamp_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("the exam")
    (tmp_path / "timestamp.txt").symlink_to(tmp_path / "secret")
    assert grading.handed_in_at(tmp_path) == ""
