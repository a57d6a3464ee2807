"""inalab in Python: the six names that `import inalab` has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import inalab
from inalab.experiments import quickstart
from inalab.testbed.interface import _word
from inalab.testbed.plan import experiment
from inalab.testbed.plan.settings import SettingsError, TrialSettings
from inalab.testbed.record.runs import ResultsError
from tests.runs import make_run, trial


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run that takes no network."""
    results = tmp_path_factory.mktemp("results")
    return inalab.run("workers", target="simulated", results=results, sizes=[2, 4], schemes=("ring",), seeds=1, costs="none")


def test_a_run_has_trials_figures_findings_and_a_folder(simulated: Any) -> None:
    assert {"workers"} <= set(simulated.figures) and simulated.findings
    assert all(figure._repr_png_().startswith(b"\x89PNG") for figure in simulated.figures.values()), "for a notebook"
    assert simulated.folder.is_dir() and simulated.record["settings"]["sizes"] == [2, 4]
    rows = simulated.trials if isinstance(simulated.trials, list) else simulated.trials.to_dict("records")
    assert len(rows) == 2 and all(row["metrics.tat_median"] > 0 and row["valid"] for row in rows)
    again = inalab.load(simulated.folder)
    assert repr(again) == repr(simulated) == f"<run {simulated.folder}: 2 trials>"
    assert [*again.figures] == [*simulated.figures] == again.record["plots"]
    assert again.findings == simulated.findings


def test_trials_are_dictionaries_where_there_is_no_pandas(simulated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    rows = inalab.load(simulated.folder).trials
    assert [row["settings.scheme"] for row in rows] == ["ring", "ring"]


def test_runs_are_compared_by_themselves_or_by_their_folders(simulated: Any) -> None:
    found = inalab.compare(simulated, simulated.folder)
    assert found.equal and not found.different


def test_what_cannot_be_is_told_as_on_the_command_line(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"there is no setting los \(did you mean loss\?\): choose one of"):
        inalab.run("quickstart", results=tmp_path, los=0.1)
    with pytest.raises(SettingsError, match="there is no experiment nosuch"):
        inalab.run("nosuch", results=tmp_path)
    with pytest.raises(ResultsError, match="is not the folder of a run"):
        inalab.load(tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_experiments_are_listed_and_are_a_package_too() -> None:
    wording = inalab.experiments()
    assert set(wording) == set(experiment.names()) and wording["loss"] == experiment.summary(experiment.load("loss"))
    assert inalab.Scheme.__name__ == "Scheme" and hasattr(inalab.Experiment, "findings")
    with pytest.raises(AttributeError, match="module 'inalab' has no attribute 'nosuch'"):
        inalab.nosuch  # noqa: B018


def test_importing_it_imports_nothing_else() -> None:
    script = "import sys, inalab; print([name for name in sys.modules if name.partition('.')[0] in ('torch', 'numpy')])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (0.01, "0.01"),
        ("ring", "ring"),
        (True, "True"),
        ((2, 4), "2,4"),
        (["a", "b"], "a,b"),
        ([{"workers": 1}], '[{"workers": 1}]'),
    ],
)
def test_values_are_those_of_the_command_line(value: Any, word: str) -> None:
    assert _word(value) == word


def test_the_quickstart_takes_several_seeds(tmp_path: Path) -> None:
    plan = quickstart.trials(quickstart.Settings(seeds=2, loss=0.05), 7)
    assert [(t.name, t.seed) for t in plan][::6] == [("no faults", 7), ("no faults", 8)] and len(plan) == 12
    assert all(type(t.settings) is TrialSettings for t in plan)
    recorded = make_run(tmp_path, [trial(name, seed=seed) for seed in (1, 2) for name in ("no faults", "1 % loss")])
    wording = quickstart.findings(recorded)
    assert [sentence[:8] for sentence in wording] == ["seed 1: "] * 2 + ["seed 2: "] * 2
    assert not [sentence for sentence in wording if "DIFFERS" in sentence]
    assert len(quickstart._of(recorded, 1).trials) == 2
