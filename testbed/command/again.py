"""The command `inalab report`: a run's plots and report again, from its folder, which may come from anywhere."""

from __future__ import annotations

from pathlib import Path

from testbed.command.runner import conclude
from testbed.command.terminal import Terminal
from testbed.plan import experiment as registry
from testbed.record.provenance import digest_of
from testbed.record.runs import ResultsError, load_run


def report_again(folder: Path, experiment: str | None, console: Terminal) -> None:
    """Draw a run by the experiment of its name, or by the one in a file. Raises ResultsError where that is needed, or another's."""
    run = load_run(folder)
    name, source = run.record["experiment"], run.record.get("source")
    if experiment is not None:
        if registry.short(experiment) != name:
            raise ResultsError(f"{folder} is a run of {name}, and {experiment} is another experiment")
        if digest_of(Path(experiment)) != (run.record.get("code") or {}).get("experiment_sha256"):
            console.print(f"{experiment} has changed since the run", style="yellow")
        conclude(run, registry.load(experiment), console)
    elif source is None and name in registry.names():
        conclude(run, registry.load(name), console, traced=False)
    else:
        told = f"of {source}" if source else f"of {name}, which is no experiment of inalab's"
        raise ResultsError(f"{folder} is a run {told}: to run the code of an experiment's file, name it with --experiment FILE")
