"""A run as comma-separated values, and that docs/reference/results.md describes what a trial's entry has."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from inalab.testbed.command.cli import application
from inalab.testbed.record.metrics import DETAIL, ELSEWHERE, MAIN, Metric
from inalab.testbed.record.runs import ROOT, ResultsError
from inalab.testbed.trial.validity import Reason
from tests.runs import failed, invalid, make_run, trial

PAGE = (ROOT / "docs" / "reference" / "results.md").read_text()


def test_every_trial_is_a_line_and_every_number_a_column(tmp_path: Path) -> None:
    run = make_run(
        tmp_path, [trial("a"), trial("a", seed=2, late=0.5), invalid(trial("b"), "slow", "late"), failed("c", 1, "no network")]
    )
    done = CliRunner().invoke(application, ["export-csv", str(run.folder)])
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader((run.folder / "trials.csv").open()))
    assert [(row["name"], row["valid"]) for row in rows] == [("a", "True"), ("a", "True"), ("b", "False"), ("c", "False")]
    assert float(rows[0]["metrics.tat_median"]) == run.trials[0]["metrics"]["tat_median"]
    assert (
        [row["seed"] for row in rows] == ["1", "2", "1", "1"] and rows[1]["metrics.late"] == "0.5" and rows[0]["metrics.late"] == ""
    )
    assert (rows[2]["factors.faults"], rows[2]["settings.k"]) == ("b", "64")
    assert rows[2]["problems"] == "slow; late"
    assert rows[3]["metrics.tat_median"] == ""


def test_it_goes_where_it_is_told_or_says_why_not(tmp_path: Path) -> None:
    run = make_run(tmp_path, [trial("a")])
    assert CliRunner().invoke(application, ["export-csv", str(run.folder), "--out", str(tmp_path / "t.csv")]).exit_code == 0
    assert (tmp_path / "t.csv").read_text().startswith("name,seed,valid,reasons,problems,")
    with pytest.raises(ResultsError, match=r"no/where/t\.csv cannot be written: No such file or directory"):
        CliRunner().invoke(
            application, ["export-csv", str(run.folder), "--out", str(tmp_path / "no/where/t.csv")], catch_exceptions=False
        )
    with pytest.raises(ResultsError, match="is not the folder of a run"):
        CliRunner().invoke(application, ["export-csv", str(tmp_path / "nothing")], catch_exceptions=False)


@pytest.mark.parametrize("metric", [*MAIN, *DETAIL], ids=lambda metric: metric.key)
def test_the_page_has_every_metric_with_its_unit_and_definition(metric: Metric) -> None:
    unit = f" ({metric.unit})" if metric.unit else ""
    assert metric.note, "a metric has a definition"
    assert f"| `{metric.key}` | {metric.heading}{unit} | {metric.note} |" in PAGE


def test_the_page_has_every_field_of_a_trial() -> None:
    for key in (*trial("a"), *failed("b", 1, "why"), *ELSEWHERE):
        assert f"`{key}`" in PAGE, key


def test_the_page_has_every_reason_why_a_trial_is_not_valid() -> None:
    listed = PAGE[PAGE.index("It is not valid if") : PAGE.index("Each trial's `reasons`")]
    assert re.findall(r"^- `(\w+)`: (.*)$", listed, re.M) == [(reason.name.lower(), reason.value) for reason in Reason]
