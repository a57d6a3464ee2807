"""Runs an experiment's trials, shows what is happening, and keeps what was measured."""

from __future__ import annotations

import inspect
import os
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from multiprocessing import connection
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from inalab.hosts.messages import Message
from inalab.hosts.plugins import is_file
from inalab.schemes import registry
from inalab.schemes.scheme import Look
from inalab.testbed import backends
from inalab.testbed.backends.backend import Backend, check
from inalab.testbed.command.display import Display, ShownTrial
from inalab.testbed.command.request import Request
from inalab.testbed.draw import plots
from inalab.testbed.draw.curves import NOTHING
from inalab.testbed.draw.lanes import lanes
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
from inalab.testbed.record.statistics import median_interval
from inalab.testbed.report.page import write_report
from inalab.testbed.theory import bounds
from inalab.testbed.trial.apart import Apart
from inalab.testbed.trial.capture import Capture
from inalab.testbed.trial.errors import TrialError

LOOKS = 0.5  # seconds between two looks whether to stop
INTERRUPTED = 130
COLUMNS = ("final_accuracy", "step_median", "tat_median", "ate_per_second", "loss_achieved", "retransmissions")


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
    have = {(t["name"], t["seed"]) for t in run.trials}
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
    failed = interrupted = False
    stop_requested.clear()
    previous = {number: signal.signal(number, _as_interrupt) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        display = Display(console, len(plan), len(plan) - len(have))
        with display.progress:
            left = [(number, trial) for number, trial in enumerate(plan, start=1) if (trial.name, trial.seed) not in have]
            wanted = left if request.capture else []
            capture = {number: Capture(request.capture, captures.folder(run.folder, number, trial)) for number, trial in wanted}
            if backend.side_by_side:
                failed |= not _run_side_by_side(run, left, backend, display, capture)
            for number, trial in left if not backend.side_by_side else ():
                if stop_requested:
                    raise KeyboardInterrupt
                failed |= not _run_one(run, number, trial, backend, display, capture.get(number))
    except KeyboardInterrupt:
        interrupted = True
        console.print("interrupted: the trials so far are kept, and --resume goes on from here", style="yellow")
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    lost = [f"{t['name']} (seed {t['seed']})" for t in run.trials if "metrics" not in t]
    run.record |= {"finished": not interrupted, "failed": lost, "ended": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
    save_record(run)
    failed |= not conclude(run, experiment, console)
    release(run)
    if lost:
        print(f"inalab: {len(lost)} of {len(plan)} trials failed: {', '.join(lost)}", file=sys.stderr)
    return INTERRUPTED if interrupted else int(failed), run


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
    if files := Foreign(CODE).read_by(added.values(), settings.k, own):
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


stop_requested: list[int] = []  # the signal, also where Python drops the exception: in a hook of fork, in a finalizer


writing: list[dict[str, Any]] = []  # the result that is being written


def _as_interrupt(number: int, frame: Any) -> None:
    stop_requested.append(number)
    if not writing:
        raise KeyboardInterrupt


def _keep(run: Run, entry: dict[str, Any]) -> None:
    """Write a result whole: whoever interrupts meanwhile ends the run before its next trial."""
    writing.append(entry)
    try:
        add_trial(run, entry)
    finally:
        writing.clear()


def _hear(shown: ShownTrial, message: Message) -> None:
    """Show what a trial reports, unless it is to stop."""
    if stop_requested:
        raise KeyboardInterrupt
    shown.hear(message)


def _run_one(run: Run, number: int, trial: Trial, backend: Backend, display: Display, capture: Capture | None) -> bool:
    shown = display.begin(number, trial)
    return _kept(run, trial, lambda: backend.run(trial.settings, trial.seed, partial(_hear, shown), capture), shown, capture)


def _run_side_by_side(
    run: Run, trials: list[tuple[int, Trial]], backend: Backend, display: Display, capture: Mapping[int, Capture]
) -> bool:
    """As many at once as there are processors. They are kept in their order, so that equal runs have equal records."""
    waiting, going, ended = deque(trials), dict[Any, tuple[int, Trial, Apart, ShownTrial]](), dict[int, Callable[[], bool]]()
    well, to_keep = True, [number for number, _ in trials]
    try:
        while waiting or going:
            if stop_requested:
                raise KeyboardInterrupt
            while waiting and len(going) < len(os.sched_getaffinity(0)):
                number, trial = waiting.popleft()
                shown = display.begin(number, trial)
                try:
                    begun = backend.start(trial.settings, trial.seed, capture.get(number))
                except TrialError as error:
                    ended[number] = partial(_kept, run, trial, partial(_raise, error), shown)
                    continue
                going[begun.receiver] = number, trial, begun, shown
            for receiver in connection.wait(list(going), LOOKS):
                number, trial, begun, shown = going[receiver]
                if not begun.hear(partial(_hear, shown)):
                    del going[receiver]
                    ended[number] = partial(_kept, run, trial, begun.result, shown, capture.get(number))
            while to_keep and to_keep[0] in ended:
                well &= ended.pop(to_keep.pop(0))()
        return well
    finally:
        for _, _, begun, _ in going.values():
            begun.kill()
        for _, keep in sorted(ended.items()):  # an interruption has come before those that they wait for
            keep()


def _raise(error: TrialError) -> dict[str, Any]:
    raise error


def _kept(run: Run, trial: Trial, result: Callable[[], dict[str, Any]], shown: ShownTrial, capture: Capture | None = None) -> bool:
    """Keep a trial's result, and show it; False where it failed."""
    entry = entry_of(trial)
    try:
        entry |= result()
    except TrialError as error:
        entry |= {"valid": False, "problems": [str(error)], "failed": True}
        _keep(run, entry)
        shown.end(("failed", "red"), f": {error}")
        return False
    captured = entry.get("captured", {})
    for link, its in captured.items():
        assert capture
        its["file"] = (capture.folder / f"{link}.pcapng").relative_to(run.folder).as_posix()
    try:
        entry |= bounds.recorded(entry)
    except Exception as error:  # of a scheme of one's own; what was measured is kept
        wording = f"{type(error).__name__}: {error}"
        shown.console.print(f"the bound of scheme {trial.settings.scheme} cannot be computed: {wording}", style="yellow")
    _keep(run, entry)
    m = entry["metrics"]
    verdict = ["valid"] if entry["valid"] else [("not valid", "yellow"), f": {'; '.join(entry['problems'])}"]
    accuracy = f"accuracy {100 * m['final_accuracy']:.1f} %, " if "final_accuracy" in m else ""
    shown.end(f"{m['duration']:.1f} s, median TAT {1000 * m['tat_median']:.0f} ms, {accuracy}", *verdict)
    if dropped := sum(its["dropped"] for its in captured.values()):
        shown.console.print(f"{dropped} packets are missing in the captures: capture fewer links", style="yellow")
    return True


def conclude(run: Run, experiment: Experiment, console: Console, again: bool = False) -> bool:
    """Print the table and the findings, and write plots and report.html; False if the trials' numbers could not be drawn.

    Then an experiment that has just run shows where it raised what, and the page says so. One that is reported `again` keeps its
    earlier page and plots.
    """
    if not run.trials:
        console.print("no trial has ended, so there is nothing to report")
        return True
    console.print(results_table(run))
    findings, figures, drawn = _drawn(run, experiment, traced=not again)
    for sentence in findings:
        console.print(f"• {sentence}")
    if again and not drawn:
        return False
    report = write_report(run, findings, figures)
    console.print(f"plots and report: {report}", soft_wrap=True)
    return drawn


def figures_of(run: Run, experiment: Experiment) -> list[tuple[str, str, Figure]]:
    """Name, caption and figure of each plot; none where no trial has measurements. Schemes are drawn as the run recorded them."""
    for name, look in run.record.get("looks", {}).items():
        low, high = look["of_bound"]
        registry.remember(name, registry.Drawn(Look(**{k: v for k, v in look.items() if k != "of_bound"}), (low, high)))
    with plots.styled():
        return [*experiment.figures(run), *lanes(run)] if run.finished else []


def findings_of(run: Run, experiment: Experiment) -> list[str]:
    """What a run shows, a sentence each; and how much it does not."""
    return [*backends.of_record(run.record).caveats(run.record), *_known(experiment.findings(run))]


def _drawn(run: Run, experiment: Experiment, traced: bool) -> tuple[list[str], list[tuple[str, str, Figure]], bool]:
    """Findings and figures. A bug in an experiment's own must not take the other experiments' trials with it."""
    if not run.finished:
        return [], [], True
    try:
        figures = figures_of(run, experiment)
        return findings_of(run, experiment), figures, True
    except Exception as error:
        backend = backends.of_record(run.record)
        if isinstance(error, KeyError) and (lacking := backend.lacks(error)):
            return [*backend.caveats(run.record), lacking], [], True
        if traced:
            traceback.print_exc()
        return [f"The figures could not be drawn: {type(error).__name__}: {error}"], [], False


def _known(findings: list[str]) -> list[str]:
    """The findings whose numbers are all known, and how many others there are."""
    known = [sentence for sentence in findings if NOTHING not in sentence]
    if lacking := len(findings) - len(known):
        needs = f"{lacking} more finding{'s need' if lacking > 1 else ' needs'} points that have no valid trial"
        known.append(f"{needs}: the trials' problems say what to change.")
    return known


def results_table(run: Run) -> Table:
    """One row for the trials of a name, for 80 columns: medians over the seeds whose trial is valid, or over all if none is."""
    table = Table(
        title=f"{run.record['experiment']} (target {run.record['target']}, seed {run.record['seed']})",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    headings = (
        "trial",
        "acc.\n%",
        "step\nms",
        "median\nTAT ms",
        "ATE/s\n1000s",
        "loss %\n(requested)",
        "retrans-\nmissions",
        "valid",
    )
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "trial" else "right", no_wrap=heading != "trial")
    for name in dict.fromkeys(t["name"] for t in run.trials):
        trials = [t for t in run.trials if t["name"] == name]
        valid = [t for t in trials if t["valid"]]
        counted = f"{len(valid)}/{len(trials)}"
        shown = [t["metrics"] for t in valid or trials if "metrics" in t]
        if not shown:
            table.add_row(name, *["–"] * (len(headings) - 2), "failed")
            continue
        m = {key: median_interval([x[key] for x in shown if x.get(key) is not None]).median for key in COLUMNS}
        loss = trials[0]["settings"].get("loss")
        cells = (
            f"{100 * m['final_accuracy']:.1f}" if "final_accuracy" in shown[0] else "–", f"{1000 * m['step_median']:.0f}",
            f"{1000 * m['tat_median']:.0f}", f"{m['ate_per_second'] / 1e3:.0f}",
            f"{100 * m['loss_achieved']:.3f} ({100 * loss:g})" if loss else "–", f"{m['retransmissions']:,.0f}", counted,
        )  # fmt: skip
        table.add_row(name, *cells)
    return table
