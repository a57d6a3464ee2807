"""Runs an experiment's trials, shows what is happening, and keeps what was measured."""

from __future__ import annotations

import inspect
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from inalab.hosts.messages import Message
from inalab.hosts.plugins import is_file
from inalab.schemes import registry
from inalab.testbed import backends
from inalab.testbed.backends.backend import Backend, check
from inalab.testbed.campaign.conduct import conduct
from inalab.testbed.campaign.here import Here
from inalab.testbed.campaign.identity import named_files
from inalab.testbed.campaign.machines import Task
from inalab.testbed.campaign.schedule import Schedule, Work
from inalab.testbed.command.conclusion import conclude
from inalab.testbed.command.display import Display, ShownTrial
from inalab.testbed.command.interruption import INTERRUPTED, Interruption
from inalab.testbed.command.request import Request
from inalab.testbed.plan import captures
from inalab.testbed.plan.described import described
from inalab.testbed.plan.effect import checked_plan
from inalab.testbed.plan.experiment import Experiment, Trial, short, summary
from inalab.testbed.record.foreign import Foreign
from inalab.testbed.record.provenance import CODE, digest_of, environment
from inalab.testbed.record.runs import (
    ResultsError,
    Run,
    add_trial,
    claim,
    create_run,
    keep_trials,
    load_run,
    release,
    save_record,
)
from inalab.testbed.theory import bounds
from inalab.testbed.trial.capture import Capture


def run_experiment(request: Request, experiment: Experiment, settings: Any, results: Path, console: Console) -> tuple[int, Run]:
    """Run all trials; the exit code, which is 0 if every trial has a result, 1 if not, 130 after an interruption, and the run.

    To resume is to go on with the newest run that was asked for in the same words: trials that have a result are kept.
    """
    plan, backend = checked_plan(experiment, settings, request.seed), backends.find(request.target)
    check(backend, plan, request.capture)
    backend.prepare(plan)
    backend.require()
    record = new_record(request, experiment, settings, plan, backend)
    run = _earlier(results, record) if request.resume else None
    if run is None:
        if request.resume:
            console.print("there is no run of the same words, code and machine to resume: this is a new one")
        run = create_run(results, record["experiment"], record)
        claim(run)
    have = {_key(t) for t in run.trials}
    if request.why:
        console.print(request.why, style="yellow", soft_wrap=True)
    console.print(record["network"], highlight=False, soft_wrap=True)
    console.print(
        f"{record['experiment']}: {len(plan)} trials on {request.target}, seed {request.seed}"
        + (f", {len(have)} of them already there" if have else "")
        + f"; results in {run.folder}",
        highlight=False,
        soft_wrap=True,
    )
    left = {str(number): trial for number, trial in enumerate(plan, start=1) if (trial.name, trial.seed) not in have}
    interrupted = False
    with Interruption() as interruption:
        try:
            display = Display(console, len(plan), len(left))
            with display.progress:
                _conduct(request, run, left, display, interruption)
        except KeyboardInterrupt:
            interrupted = True
            console.print("interrupted: the trials so far are kept, and --resume goes on from here", style="yellow")
    place = {(trial.name, trial.seed): number for number, trial in enumerate(plan)}
    if (ordered := sorted(run.trials, key=lambda t: place[_key(t)])) != run.trials:
        keep_trials(run, ordered)
    lost = [f"{t['name']} (seed {t['seed']})" for t in run.trials if "metrics" not in t]
    run.record |= {"finished": not interrupted, "failed": lost, "ended": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
    save_record(run)
    drawn = conclude(run, experiment, console)
    release(run)
    if lost:
        print(f"inalab: {len(lost)} of {len(plan)} trials failed: {', '.join(lost)}", file=sys.stderr)
    return INTERRUPTED if interrupted else int(bool(lost) or not drawn), run


def _key(trial: dict[str, Any]) -> tuple[str, int]:
    """A recorded trial's name and seed, of which a run has one."""
    return trial["name"], trial["seed"]


def _conduct(request: Request, run: Run, trials: dict[str, Trial], display: Display, interruption: Interruption) -> None:
    """Run these trials of a run, by number, on this machine."""
    tasks = {}
    for number, trial in trials.items():
        capture = Capture(request.capture, captures.folder(run.folder, int(number), trial)) if request.capture else None
        tasks[number] = Task(trial, request.target, capture=capture)
    schedule = Schedule([[Work(number, trial.name, int(number))] for number, trial in trials.items()])
    book = _Book(run, tasks, display)
    conduct(schedule, tasks, Here([request.target]), book, lambda: interruption.requested, interruption.whole)


def new_record(request: Request, experiment: Experiment, settings: Any, plan: list[Trial], backend: Backend) -> dict[str, Any]:
    """What run.json says of a run before its first trial."""
    record = {
        "experiment": short(request.experiment), "target": request.target, "seed": request.seed, "set": request.overrides,
        "quick": request.quick, "description": summary(experiment), "settings": settings.model_dump(mode="json"),
        "network": described([trial.settings for trial in plan]),
        "trials": [t.name for t in plan],
        **environment(Path(inspect.getfile(experiment.trials))),
        "target_versions": backend.versions(), "finished": False,
    }  # fmt: skip
    if request.capture:
        record["capture"] = list(request.capture)
    if is_file(request.experiment):
        record["source"] = str(Path(request.experiment).resolve())
    added, own = registry.added(), Path(inspect.getfile(experiment.trials))
    if files := Foreign(CODE).read_by(added.values(), settings.k, own, *named_files(plan)):
        record["foreign"] = files
    if added:
        record["schemes_added"] = {source: digest_of(Path(source)) for source in added}
        record["looks"] = {s.name: asdict(s.look) | {"of_bound": s.of_bound} for s in added.values()}
    return record


def entry_of(trial: Trial) -> dict[str, Any]:
    """What trials.jsonl says of a trial before its results."""
    return {"name": trial.name, "factors": trial.factors, "seed": trial.seed, "settings": trial.settings.resolved()}


def _earlier(results: Path, record: dict[str, Any]) -> Run | None:
    """The newest run that was asked for in the same words, without its failed trials; None if there is none.

    Trials of other code or another machine do not belong into one run, nor does a run that is still going.
    """
    code = ("versions", "machine", "git", "code", "schemes_added", "foreign")
    same = ("experiment", "target", "seed", "settings", "quick", "trials", "capture", *code)
    for folder in sorted((results / record["experiment"]).glob("*/run.json"), reverse=True):
        try:
            run = load_run(folder.parent)
        except ResultsError:
            continue
        if all(run.record.get(key) == record.get(key) for key in same) and claim(run):
            keep_trials(run, run.finished)
            return run
    return None


class _Book:
    """Keeps the results of a run's trials in its folder, and shows their progress."""

    def __init__(self, run: Run, tasks: dict[str, Task], display: Display) -> None:
        self.run, self.tasks, self.display = run, tasks, display
        self.shown: dict[str, ShownTrial] = {}  # by slot

    def begin(self, slot: str, work: Work) -> None:
        self.shown[slot] = self.display.begin(int(work.identity), self.tasks[work.identity].trial)

    def hear(self, slot: str, message: Message) -> None:
        self.shown[slot].hear(message)

    def tell(self, sentence: str) -> None:
        self.display.console.print(sentence)

    def show(self, schedule: Schedule, slots: int) -> None:
        pass  # each trial shows itself

    def fail(self, slot: str, work: Work, why: str) -> None:
        add_trial(self.run, entry_of(self.tasks[work.identity].trial) | {"valid": False, "problems": [why], "failed": True})
        self.shown[slot].end(("failed", "red"), f": {why}")

    def keep(self, slot: str, work: Work, result: dict[str, Any]) -> None:
        task, console = self.tasks[work.identity], self.display.console
        entry = entry_of(task.trial) | result
        captured = entry.get("captured", {})
        for link, its in captured.items():
            assert task.capture
            its["file"] = (task.capture.folder / f"{link}.pcapng").relative_to(self.run.folder).as_posix()
        try:
            entry |= bounds.recorded(entry)
        except Exception as error:  # of a scheme of one's own; what was measured is kept
            wording = f"{type(error).__name__}: {error}"
            console.print(f"the bound of scheme {task.trial.settings.scheme} cannot be computed: {wording}", style="yellow")
        add_trial(self.run, entry)
        m = entry["metrics"]
        verdict = ["valid"] if entry["valid"] else [("not valid", "yellow"), f": {'; '.join(entry['problems'])}"]
        accuracy = f"accuracy {100 * m['final_accuracy']:.1f} %, " if "final_accuracy" in m else ""
        self.shown[slot].end(f"{m['duration']:.1f} s, median TAT {1000 * m['tat_median']:.0f} ms, {accuracy}", *verdict)
        if dropped := sum(its["dropped"] for its in captured.values()):
            console.print(f"{dropped} packets are missing in the captures: capture fewer links", style="yellow")
