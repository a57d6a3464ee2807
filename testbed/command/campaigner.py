"""A campaign from its words to its reports: what `inalab campaign run` and `inalab run --on` do."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from inalab.testbed import backends
from inalab.testbed.backends.backend import check
from inalab.testbed.campaign.campaign import Campaign, Planned
from inalab.testbed.campaign.file import RunWords
from inalab.testbed.campaign.here import Here
from inalab.testbed.campaign.identity import foreign_files, identity
from inalab.testbed.campaign.machines import Machines
from inalab.testbed.command.conclusion import conclude
from inalab.testbed.command.interruption import INTERRUPTED, Interruption
from inalab.testbed.command.request import Request, understood
from inalab.testbed.command.runner import entry_of, new_record
from inalab.testbed.plan.effect import checked_plan
from inalab.testbed.plan.experiment import short
from inalab.testbed.plan.settings import named_scheme
from inalab.testbed.record.runs import Run, create_run, keep_trials, rounded, save_record
from inalab.testbed.theory import bounds

if TYPE_CHECKING:
    from inalab.testbed.campaign.scheduler import Scheduler

FOLDER = "campaigns"  # below the results


def conduct(
    name: str, words: Sequence[RunWords], on: Scheduler | None, results: Path, console: Console, again: bool | None = None
) -> int:
    """Run a campaign of these runs and write their reports; the exit code is 0 if every trial has a result.

    With `again`, trials whose results are not valid run again; None where the command has no such option.
    """
    runs = [_Run(one) for one in words]
    for run in runs:
        run.backend.require()
    campaign = Campaign(results / FOLDER / name, [run.planned for run in runs], bool(again))
    campaign.claim()
    there = f", {campaign.status.done} of them already there" if campaign.status.done else ""
    console.print(f"campaign {name}: {len(campaign.trials)} trials in {len(runs)} runs{there}; results in {campaign.folder}")
    interrupted = False
    with Interruption() as interruption:
        try:
            if campaign.status.done < len(campaign.trials):
                machines = _machines(on, [run.request.target for run in runs])
                campaign.conduct(machines, console.print, lambda: interruption.requested, interruption.whole)
        except KeyboardInterrupt:
            interrupted = True
            console.print("interrupted: the trials so far are kept, and the same command goes on from here", style="yellow")
    drawn = [run.report(campaign, results, console) for run in runs]
    if again is not None and not interrupted and (invalid := campaign.invalid()):
        wording = f"{invalid} of {len(campaign.trials)} trials are not valid"
        console.print(f"{wording}: to run them again, say the same with --again invalid", style="yellow")
    campaign.release()
    lost = len(campaign.trials) - campaign.status.done
    if lost and not interrupted:
        print(f"inalab: {lost} of {len(campaign.trials)} trials failed: {', '.join(campaign.status.failed)}", file=sys.stderr)
    return INTERRUPTED if interrupted else int(bool(lost) or not all(drawn))


def _machines(on: Scheduler | None, targets: Sequence[str]) -> Machines:
    """This machine, or those of a Dask scheduler. Raises MachinesError."""
    if on is None:
        return Here(targets)
    from inalab.testbed.campaign.dask_machines import DaskMachines  # half a second

    return DaskMachines(on)


class _Run:
    """One run of a campaign, as `inalab run` would make it."""

    def __init__(self, words: RunWords) -> None:
        scheme = named_scheme(words.scheme) if words.scheme else None
        request = Request(words.experiment, words.target, words.seed, list(words.set), words.quick)
        self.request, self.experiment, self.settings = understood(request, scheme, here=False)
        self.plan = checked_plan(self.experiment, self.settings, request.seed)
        self.backend = backends.find(self.request.target)
        check(self.backend, self.plan)
        self.backend.prepare(self.plan[:1])
        trials, foreign = [], {}
        for trial in self.plan:
            files = foreign_files(trial)
            number = identity(trial, self.request.target, files)
            trials.append((number, trial))
            foreign[number] = files
        self.planned = Planned(short(request.experiment), self.request.target, trials, foreign)

    def report(self, campaign: Campaign, results: Path, console: Console) -> bool:
        """Write the run's folder anew, from what there is; False if it could not be drawn."""
        found = campaign.results(self.planned)
        if not found:
            return True
        record = new_record(self.request, self.experiment, self.settings, self.plan, self.backend)
        record |= {"campaign": campaign.folder.name, "finished": len(found) == len(self.plan)}
        record |= {"machines": campaign.machines(self.planned), "ended": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
        words = hashlib.sha256(json.dumps(asdict(self.request)).encode()).hexdigest()[:16]
        note = campaign.folder / f"run-{words}"  # a link to the folder of its report
        if (note / "run.json").exists():
            run = Run(note.resolve(), record)
            save_record(run)
        else:
            run = create_run(results, record["experiment"], record)
            note.unlink(missing_ok=True)
            note.symlink_to(run.folder.resolve())
        entries = [entry_of(trial) | result for trial, result in found]
        keep_trials(run, [rounded(entry | bounds.recorded(entry)) for entry in entries])
        return conclude(run, self.experiment, console)
