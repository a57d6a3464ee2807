"""inalab in Python, for notebooks and scripts: what `import inalab` has.

import inalab
run = inalab.run("quickstart", loss=0.01, seeds=3)
run.trials.groupby("name")["metrics.tat_median"].median()
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from inalab.schemes.scheme import Scheme
from inalab.testbed.command.conclusion import figures_of
from inalab.testbed.command.interruption import INTERRUPTED
from inalab.testbed.command.request import Request, understood
from inalab.testbed.command.runner import run_experiment
from inalab.testbed.command.terminal import Terminal
from inalab.testbed.plan import experiment as registry
from inalab.testbed.plan.experiment import Experiment
from inalab.testbed.plan.settings import named_scheme
from inalab.testbed.record import runs, table
from inalab.testbed.report.compare import Comparison
from inalab.testbed.report.compare import compare as compare_runs

__all__ = ["Comparison", "Experiment", "Run", "Scheme", "compare", "load", "run"]


class Run:
    """A run of an experiment: what is in its folder."""

    def __init__(self, recorded: runs.Run, experiment: Experiment | None) -> None:
        self.recorded, self.experiment = recorded, experiment

    @property
    def folder(self) -> Path:
        """Where its trials, figures and report are."""
        return self.recorded.folder

    @property
    def record(self) -> dict[str, Any]:
        """run.json: the request, the machine and the code."""
        return self.recorded.record

    @cached_property
    def trials(self) -> Any:
        """A row for each trial, failed ones too, with columns such as `settings.loss` and `metrics.tat_median`.

        A pandas.DataFrame where pandas is installed, else a list of dictionaries.
        """
        rows = table.rows(self.recorded)
        try:
            import pandas
        except ModuleNotFoundError:
            return rows
        return pandas.DataFrame(rows)

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """By name, as in the report; none where the experiment's file is not at hand."""
        return {name: figure for name, _, figure in figures_of(self.recorded, self.experiment)} if self.experiment else {}

    @property
    def findings(self) -> list[str]:
        """What the run shows, a sentence each."""
        found: list[str] = self.record.get("findings", [])
        return found

    def __repr__(self) -> str:
        return f"<run {self.folder}: {len(self.recorded.trials)} trials>"


def run(
    experiment: str | Path = "quickstart", *, target: str = "", scheme: str | Path | None = None, seed: int = 1,
    quick: bool = False, results: str | Path = "results", **settings: Any,
) -> Run:  # fmt: skip
    """Run an experiment, as `inalab run` does, and return the run; `settings` are those of --set.

    A setting with a dot in its name is given as `**{"loss.burst": 8}`. Raises SettingsError for what cannot be, and
    KeyboardInterrupt where it was interrupted. A trial that failed is in `trials`, with its problem.
    """
    words = [f"{key}={_word(value)}" for key, value in settings.items()]
    request = Request(str(experiment), target, seed, words, quick)
    request, chosen, made = understood(request, named_scheme(str(scheme)) if scheme is not None else None)
    code, recorded = run_experiment(request, chosen, made, Path(results), Terminal())
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    return Run(recorded, chosen)


def load(folder: str | Path) -> Run:
    """The run in a folder, from this machine or elsewhere. Raises ResultsError where there is none."""
    recorded = runs.load_run(Path(folder))
    name = recorded.record["experiment"]
    known = name in registry.names() and recorded.record.get("source") is None
    return Run(recorded, registry.load(name) if known else None)


def compare(first: Run | str | Path, second: Run | str | Path) -> Comparison:
    """In which trials two runs differ, with 95 % confidence over all comparisons together: see `inalab compare`."""
    a, b = (given if isinstance(given, Run) else load(given) for given in (first, second))
    return compare_runs(a.recorded, b.recorded)


def _word(value: Any) -> str:
    """A setting's value as on the command line."""
    if isinstance(value, dict) or (isinstance(value, list | tuple) and any(isinstance(part, dict) for part in value)):
        return json.dumps(value)
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ",".join(map(str, value))
    return str(value)
