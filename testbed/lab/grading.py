"""Grades of many submissions: a table, JSON, and results.json as Gradescope's autograders write it.

https://gradescope-autograders.readthedocs.io/en/latest/specs/ describes the fields of results.json.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from inalab.testbed.lab import catalogue
from inalab.testbed.lab.check import check
from inalab.testbed.lab.lab import LabError, Outcome, Report

GRADES = "grades.json"
LONGEST_NAME, LONGEST_REASON = 24, 160  # characters that are shown


def graded(folder: Path, lab: str | None, unconfined: bool = False) -> Report:
    """The report on a submission. One that is no lab gets a report without points, which says why."""
    try:
        name = catalogue.named(lab, folder)
        if not folder.is_dir():
            raise LabError(f"there is no folder {folder}")
        if catalogue.load(name).real_trials and os.geteuid() == 0 and not unconfined:
            raise LabError(
                f"{folder}: the trials of {name} can change the kernel's settings if root grades: use an ordinary account"
            )
    except LabError as error:
        return Report("?", str(folder), [Outcome("submission", 0, 0, str(error))])
    return Report(name, str(folder), list(check(catalogue.load(name), folder)))


def tables(reports: Sequence[Report]) -> list[Table]:
    """Points by task, a row a submission: a table for each lab, which fits 80 columns. What is no lab is left out."""
    labs: dict[str, list[Report]] = {}
    for report in reports:
        if report.most:
            labs.setdefault(report.lab, []).append(report)
    folders = [Path(report.submission) for report in reports]
    made = []
    for lab, its in labs.items():
        most = [outcome.most for outcome in max(its, key=lambda r: len(r.outcomes)).outcomes]
        table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column(lab, max_width=LONGEST_NAME, no_wrap=True, overflow="ellipsis")
        for number, points in enumerate(most, 1):
            table.add_column(f"{number}\n/{points}", justify="right", no_wrap=True)
        table.add_column(f"points\n/{sum(most)}", justify="right", no_wrap=True)
        for report in its:
            cells = [f"{o.points:g}" for o in report.outcomes]
            table.add_row(name_of(Path(report.submission), folders), *cells, *[""] * (len(most) - len(cells)), f"{report.points:g}")
        made.append(table)
    return made


def lost(report: Report, name: str) -> str:
    """Where a submission lost its first points, and why, in a line; nothing where it has all."""
    for number, outcome in enumerate(report.outcomes, 1):
        if outcome.most and not outcome.passed:
            why = " ".join(outcome.message.split())
            return f"{name}: {number}, {outcome.task}: {why if len(why) <= LONGEST_REASON else why[: LONGEST_REASON - 1] + '…'}"
    return ""


def gradescope(report: Report) -> dict[str, Any]:
    """results.json."""
    tests = [
        {
            "number": str(n), "name": o.task, "score": o.points, "max_score": o.most,
            "status": "passed" if o.passed and o.most else "failed", "output": _text(o), "output_format": "text",
        }
        for n, o in enumerate(report.outcomes, 1)
    ]  # fmt: skip
    return {"score": report.points, "output": f"{report.lab}: {report.points:g} of {report.most} points", "tests": tests}


def _text(outcome: Outcome) -> str:
    parts = [outcome.message, outcome.trace, outcome.output.strip() and f"The program printed:\n{outcome.output.strip()}"]
    return "\n\n".join(part for part in parts if part)


def name_of(folder: Path, folders: Sequence[Path]) -> str:
    """What a submission's results are kept under: its folder's name, or its path where that is another's, too, or GRADES."""
    name = folder.resolve().name
    same = [f for f in folders if f.resolve().name == name]
    return name if len(same) == 1 and name != GRADES else "_".join(folder.resolve().parts[1:])


def writable(folder: Path) -> None:
    """Make the folder, before an hour of grading. Raises LabError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(f"{folder} cannot be written: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise LabError(f"{folder} cannot be written: permission denied")


def write_gradescope(report: Report, folder: Path) -> Path:
    """Write a submission's results.json into a folder."""
    return _write(folder / "results.json", gradescope(report))


def write_grades(reports: Sequence[Report], folder: Path) -> Path:
    """Write grades.json: all reports, with every outcome."""
    return _write(folder / GRADES, [asdict(r) | {"points": r.points, "most": r.most} for r in reports])


def _write(path: Path, content: Any) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise LabError(f"{path} cannot be written: {error.strerror}") from None
    return path
