"""The tables of a report: the trials, and the medians over their seeds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from inalab.testbed.record import metrics
from inalab.testbed.record.metrics import MISSING, Metric
from inalab.testbed.record.runs import Run
from inalab.testbed.record.statistics import median_interval


@dataclass(frozen=True)
class Cell:
    """A cell: what is shown, and what it is sorted by."""

    text: str
    value: Any = None
    kind: str = ""
    link: str = ""
    under: str = ""


@dataclass(frozen=True)
class Column:
    """A column, with its unit."""

    heading: str
    unit: str = ""
    kind: str = ""
    note: str = ""


@dataclass
class Row:
    """A row; `verdict` is valid, invalid or failed."""

    verdict: str
    cells: list[Cell] = field(default_factory=list)


@dataclass(frozen=True)
class Sheet:
    """Columns and rows; `details` tells whether some columns are not shown at first."""

    columns: list[Column]
    rows: list[Row]
    details: bool = False


def trial_table(run: Run) -> Sheet:
    """A row a trial: name, seed, the factors that vary, what was measured, the model, and whether to believe it."""
    factors = _varying(run.trials)
    main, details = metrics.present(run.trials)
    if not any(t.get("settings", {}).get("loss") or t.get("metrics", {}).get("loss_achieved") for t in run.trials):
        main = [m for m in main if m.key != "loss_achieved"]
    models = any(t.get("metrics", {}).get("model_digest") is not None for t in run.trials)
    seeds = "" if len({t.get("seed") for t in run.trials}) > 1 else "detail"  # one seed is among the facts of the run
    columns = [Column("trial", kind="text"), Column("seed", kind=seeds)]
    columns += [Column(key.replace("_", " "), kind="text") for key in factors]
    columns.append(Column("valid", kind="text"))
    for kind, group in (("", main), ("detail", details)):
        for m in group:
            if m.key == "loss_achieved":
                columns.append(Column("requested loss", "%", kind, "on every link, in each direction"))
            columns.append(Column(m.heading, m.unit, kind, m.note))
    columns += [Column("model", kind="text", note="SHA-256 of the final model")] if models else []
    rows = [_row(n, t, seeds, factors, main, details, models) for n, t in enumerate(run.trials, start=1)]
    return Sheet(columns, rows, bool(details))


def _row(
    number: int, trial: dict[str, Any], seeds: str, factors: list[str], main: list[Metric], details: list[Metric], models: bool
) -> Row:  # fmt: skip
    measured, judged = trial.get("metrics", {}), verdict(trial)
    row = Row(judged, [Cell(trial["name"], trial["name"]), Cell(str(trial.get("seed", MISSING)), trial.get("seed"), seeds)])
    for key in factors:
        value = trial.get("factors", {}).get(key)
        row.cells.append(Cell(MISSING if value is None else str(value), value, "text"))
    words = {"valid": "yes", "invalid": "no", "failed": "failed"}
    row.cells.append(Cell(words[judged], words[judged], "text", "" if judged == "valid" else f"#why-{number}"))
    for kind, group in (("", main), ("detail", details)):
        for m in group:
            if m.key == "loss_achieved":
                asked = trial.get("settings", {}).get("loss")
                row.cells.append(Cell(MISSING if asked is None else f"{100 * asked:g}", asked, kind))
            value = measured.get(m.key)
            row.cells.append(Cell(m.text(value), value, kind))
    if models:
        digest = measured.get("model_digest")
        row.cells.append(Cell(MISSING if digest is None else digest[:12] or "differ", digest, "text"))
    return row


def verdict(trial: dict[str, Any]) -> str:
    """Whether to believe a trial: valid, invalid or failed."""
    if "metrics" not in trial:
        return "failed"
    return "valid" if trial.get("valid") else "invalid"


def _varying(trials: list[dict[str, Any]]) -> list[str]:
    """The factors that tell trials apart, without those that only repeat the name."""
    keys = dict.fromkeys(key for t in trials for key in t.get("factors", {}))
    values = {key: [t.get("factors", {}).get(key) for t in trials] for key in keys}
    names = [t["name"] for t in trials]
    return [key for key, found in values.items() if len(set(map(str, found))) > 1 and found != names]


def seed_table(run: Run) -> Sheet | None:
    """A row a name: medians over the valid seeds, and the bounds of their intervals; None if no name has several seeds."""
    names = dict.fromkeys(t["name"] for t in run.trials)
    groups = {name: [t for t in run.trials if t["name"] == name] for name in names}
    if all(len(group) < 2 for group in groups.values()):
        return None
    sound = {name: [t for t in group if verdict(t) == "valid"] for name, group in groups.items()}
    shown = [m for m in metrics.present([t for group in sound.values() for t in group])[0] if _numbers(m, run.trials)]
    columns = [Column("trial", kind="text"), Column("valid", "seeds"), *(Column(m.heading, m.unit, note=m.note) for m in shown)]
    rows = []
    for name, group in groups.items():
        row = Row("" if sound[name] else "invalid", [Cell(name, name)])
        row.cells.append(Cell(f"{len(sound[name])} of {len(group)}", len(sound[name])))
        for m in shown:
            interval = median_interval(_numbers(m, sound[name]))
            low, high = m.text(interval.low), m.text(interval.high)
            row.cells.append(
                Cell(
                    m.text(interval.median), interval.median if interval.n else None, under=f"{low} – {high}" if low != high else ""
                )
            )
        rows.append(row)
    return Sheet(columns, rows)


def _numbers(metric: Metric, trials: list[dict[str, Any]]) -> list[float]:
    found = [t.get("metrics", {}).get(metric.key) for t in trials]
    return [float(v) for v in found if isinstance(v, int | float) and math.isfinite(v)]
