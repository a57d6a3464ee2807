"""Grades of many submissions: a table, JSON, results.json as Gradescope's autograders write it, and CSV as nbgrader exports it.

https://gradescope-autograders.readthedocs.io/en/latest/specs/ describes the fields of results.json, and
https://nbgrader.readthedocs.io/en/stable/user_guide/managing_the_database.html the export of grades.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from inalab.testbed.lab import catalogue
from inalab.testbed.lab.check import check, printable
from inalab.testbed.lab.lab import LabError, Outcome, Report

GRADES, TABLE = "grades.json", "grades.csv"
COLUMNS = ["assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email"]  # of nbgrader's export
SCORES = ["raw_score", "late_submission_penalty", "score", "max_score"]
TIMESTAMP = "timestamp.txt"  # in a submission that nbgrader has collected: when it was handed in
LONGEST_TIMESTAMP = 64  # characters
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
    """What a submission's results are kept under: its folder's name where that is no other's, else what tells its path from theirs.

    Of submitted/anna/05-loss and submitted/ben/05-loss, as nbgrader lays them out, this is anna and ben.
    """
    paths = {path: path.parts[1:] for path in (f.resolve() for f in folders)}
    own = folder.resolve()
    ends = {path: parts[_common(paths.values(), 1) : len(parts) - _common(paths.values(), -1)] for path, parts in paths.items()}
    for names in ({path: path.name for path in paths}, {path: "_".join(end) for path, end in ends.items()}):
        if list(names.values()).count(names[own]) == 1 and names[own] not in ("", GRADES, TABLE):
            return names[own]
    return "_".join(own.parts[1:])


def _common(paths: Iterable[tuple[str, ...]], step: int) -> int:
    """How many parts all of these paths have in common, from the begin (1) or the end (-1); of one path, none."""
    columns = list(zip(*(path[::step] for path in paths), strict=False))
    return next((n for n, parts in enumerate(columns) if len(set(parts)) > 1), 0)


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
    return _write_json(folder / "results.json", gradescope(report))


def write_grades(reports: Sequence[Report], folder: Path) -> Path:
    """Write grades.json: all reports, with every outcome."""
    return _write_json(folder / GRADES, [asdict(r) | {"points": r.points, "most": r.most} for r in reports])


def write_table(reports: Sequence[Report], names: Sequence[str], folder: Path) -> Path:
    """Write grades.csv: a row a submission, in the columns of nbgrader's export. What was not graded has no row."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow([*COLUMNS, *SCORES])
    for report, name in zip(reports, names, strict=True):
        if report.most:
            about = [report.lab, "", handed_in_at(Path(report.submission)), printable(name), "", "", ""]
            rows.writerow([*about, report.points, 0.0, report.points, report.most])
    return _write(folder / TABLE, text.getvalue())


def handed_in_at(folder: Path) -> str:
    """What nbgrader has noted, or nothing."""
    note = folder / TIMESTAMP
    if note.is_symlink() or not note.is_file():
        return ""
    with open(note, encoding="utf-8", errors="replace") as opened:
        return printable(opened.read(LONGEST_TIMESTAMP).strip())


def _write_json(path: Path, content: Any) -> Path:
    return _write(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _write(path: Path, text: str) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise LabError(f"{path} cannot be written: {error.strerror}") from None
    return path
