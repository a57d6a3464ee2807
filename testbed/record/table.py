"""A run's trials as comma-separated values, for spreadsheets and data frames: one line per trial, one column per number."""

from __future__ import annotations

import csv
from typing import Any, TextIO

from inalab.testbed.record.runs import Run

FIRST = ("name", "seed", "valid", "reasons", "problems")
NESTED = ("factors", "settings", "metrics")  # whose entries become columns, the name and a dot before theirs


def write_csv(run: Run, out: TextIO) -> None:
    """Write a line for every trial, failed ones too; what a trial lacks is empty. Lists and maps are left out."""
    found = rows(run)
    columns = list(dict.fromkeys([*FIRST, *(column for row in found for column in row)]))
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)


def rows(run: Run) -> list[dict[str, Any]]:
    """A row for every trial, by column."""
    return [_row(trial) for trial in run.trials]


def _row(trial: dict[str, Any]) -> dict[str, Any]:
    row = {"name": trial["name"], "seed": trial.get("seed"), "valid": trial.get("valid")}
    row |= {what: "; ".join(trial.get(what, [])) for what in ("reasons", "problems")}
    for part in NESTED:
        row |= {f"{part}.{key}": value for key, value in trial.get(part, {}).items() if not isinstance(value, dict | list)}
    return row
