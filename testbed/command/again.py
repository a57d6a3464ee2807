"""The command `inalab report`: a run's plots and report again, from its folder, which may come from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from inalab.testbed.command.conclusion import conclude
from inalab.testbed.command.terminal import Terminal
from inalab.testbed.plan import experiment as registry
from inalab.testbed.plan.settings import named_scheme
from inalab.testbed.record.provenance import digest_of
from inalab.testbed.record.runs import ResultsError, load_run


def report_again(folder: Path, experiment: str | None, schemes: Sequence[str], console: Terminal) -> bool:
    """Draw a run by the experiment of its name, or by the one in a file; whether it could be drawn.

    Code is run of the files that are named here, and of no other. Raises ResultsError where one is needed, or another's.
    """
    run = load_run(folder)
    recorded = [*run.record.get("foreign", {}).values(), (run.record.get("code") or {}).get("experiment_sha256")]
    for file in [*schemes, *([experiment] if experiment else [])]:
        if digest_of(Path(file)) not in recorded:
            console.print(f"{file} has changed since the run", style="yellow")
    for file in schemes:
        named_scheme(file)
    name, source = run.record["experiment"], run.record.get("source")
    if experiment is not None:
        if registry.short(experiment) != name:
            raise ResultsError(f"{folder} is a run of {name}, and {experiment} is another experiment")
        return conclude(run, registry.load(experiment), console, again=True)
    if source is not None or name not in registry.names():
        wording = f"of {source}" if source else f"of {name}, which is no experiment of inalab's"
        raise ResultsError(f"{folder} is a run {wording}: to run the code of an experiment's file, name it with --experiment FILE")
    drawn = conclude(run, registry.load(name), console, again=True)
    if not drawn and (left := [file for file in run.record.get("schemes_added", {}) if file not in schemes]):
        console.print(f"a bound may need the code of {', '.join(left)}: name it with --scheme FILE")
    return drawn
