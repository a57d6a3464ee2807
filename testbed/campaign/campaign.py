"""A campaign: the trials of several runs, each run once and kept under its identity, and a report for every run.

A campaign that was interrupted goes on where it stopped: what has a result is not run again.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inalab.hosts.messages import Message
from inalab.testbed import backends
from inalab.testbed.campaign.conduct import conduct
from inalab.testbed.campaign.machines import Machines, Task
from inalab.testbed.campaign.schedule import Schedule, Work
from inalab.testbed.campaign.store import Store
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.record.clock import time_left
from inalab.testbed.record.runs import ResultsError, lock, rounded, write_whole

KIND = ("processor", "kernel", "cores")  # of a machine's fingerprint, what tells kinds of machines apart
Tell = Callable[[str], None]


@dataclass
class Planned:
    """A run of a campaign: its title, its target, and its trials with their identities, in the order of the experiment.

    `foreign` are the files that the trials with these identities read, as they were when it was planned.
    """

    title: str
    target: str
    trials: list[tuple[str, Trial]]
    foreign: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass
class Status:
    """What a campaign is doing, for those who ask."""

    trials: int
    done: int
    failed: dict[str, str] = field(default_factory=dict)  # by name
    running: dict[str, str] = field(default_factory=dict)  # by slot: a trial's name
    slots: int = 0
    left: float | None = None  # seconds, if trials take as long as those so far
    updated: float = 0.0  # time.time()


class Campaign:
    """A folder: `trials/` with the results, and status.json."""

    def __init__(self, folder: Path, runs: list[Planned], again: bool = False) -> None:
        """With `again` trials whose results are not valid run again, and the new results replace the old."""
        self.folder, self.runs = folder, runs
        self.store = Store(folder / "trials")
        self.trials: dict[str, tuple[Planned, Trial]] = {}
        for run in runs:
            for number, trial in run.trials:
                self.trials.setdefault(number, (run, trial))
        # how often the trials that are left have run
        self.tries = {number: self._tries(number) for number in self.trials if not self._settled(number, again)}
        self.status = Status(len(self.trials), len(self.trials) - len(self.tries))
        self.took: list[float] = []  # seconds of each trial that has ended
        self.claimed: int | None = None

    def _settled(self, number: str, again: bool) -> bool:
        return self.store.has(number) and (not again or bool(self.store.read(number)["valid"]))

    def _tries(self, number: str) -> int:
        return int(self.store.read(number).get("tries", 1)) if self.store.has(number) else 0

    def claim(self) -> None:
        """Make the campaign this process's own. Raises ResultsError if another is at it."""
        self.claimed = lock(self.folder)
        if self.claimed is None:
            raise ResultsError(f"another process runs the campaign in {self.folder}: wait, or end that one")

    def release(self) -> None:
        """Leave it to others."""
        if self.claimed is not None:
            os.close(self.claimed)

    def blocks(self) -> list[list[Work]]:
        """What is left to run: a block for each run and seed, or for each trial where trials of the run measure no time."""
        found: dict[tuple[int, int, str], list[Work]] = {}
        seen: set[str] = set()
        for place, run in enumerate(self.runs):
            for number, trial in run.trials:
                if number not in seen and number in self.tries:
                    seen.add(number)
                    alone = number if backends.find(run.target).side_by_side else ""
                    block = found.setdefault((place, trial.seed, alone), [])
                    block.append(Work(number, f"{run.title}: {trial.name} (seed {trial.seed})", len(found) - 1))
        return list(found.values())

    def conduct(
        self, machines: Machines, tell: Tell, stop: Callable[[], bool] = lambda: False,
        whole: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:  # fmt: skip
        """Run what is left on these machines. A failure of one trial is told, and the others go on.

        Raises ResultsError where a result cannot be kept, and KeyboardInterrupt where `stop` says so. Whatever ends this, what has
        a result keeps it.
        """
        tasks = {number: Task(trial, run.target, run.foreign.get(number, {})) for number, (run, trial) in self.trials.items()}
        conduct(Schedule(self.blocks()), tasks, machines, _Book(self, machines, tell), stop, whole)

    def commit(self, work: Work, result: dict[str, Any], fingerprint: dict[str, Any]) -> None:
        """Keep a trial's result, with the machine that it ran on. ResultsError if that cannot be."""
        before = self.tries[work.identity]
        kept = rounded(result) | {"machine": fingerprint, "tries": before + 1}
        self.status.done += self.store.commit(work.identity, kept, replacing=before > 0)

    def show(self, schedule: Schedule, slots: int) -> None:
        """Write status.json."""
        s = self.status
        s.running = {slot: work.name for slot, work in schedule.running.items()}
        s.slots, s.updated = slots, time.time()
        s.left = schedule.left * sum(self.took) / len(self.took) / slots if self.took and slots else None
        write_whole(self.folder / "status.json", json.dumps(s.__dict__, indent=1) + "\n")

    def invalid(self) -> int:
        """How many of the trials have a result that is not valid."""
        return sum(self.store.has(number) and not self.store.read(number)["valid"] for number in self.trials)

    def results(self, run: Planned) -> list[tuple[Trial, dict[str, Any]]]:
        """The trials of a run that have a result, in the experiment's order."""
        return [(trial, self.store.read(number)) for number, trial in run.trials if self.store.has(number)]

    def machines(self, run: Planned) -> list[dict[str, Any]]:
        """On what the trials of a run ran: processor, kernel and cores, and how many `trials` each kind of machine had."""
        seen = Counter(tuple(result["machine"][key] for key in KIND) for _, result in self.results(run))
        return [dict(zip(KIND, kind, strict=True)) | {"trials": trials} for kind, trials in seen.most_common()]


class _Book:
    """Keeps a campaign's results, and tells of them."""

    def __init__(self, campaign: Campaign, machines: Machines, tell: Tell) -> None:
        self.campaign, self.machines, self.tell = campaign, machines, tell
        self.begun: dict[str, tuple[float, dict[str, Any]]] = {}  # by slot: when its trial began, and what its machine is

    def begin(self, slot: str, work: Work) -> None:
        fingerprint = self.machines.fingerprint(slot)
        self.begun[slot] = time.monotonic(), fingerprint

    def hear(self, slot: str, message: Message) -> None:
        pass  # a campaign shows trials that have ended

    def keep(self, slot: str, work: Work, result: dict[str, Any]) -> None:
        begun, fingerprint = self.begun.pop(slot)
        self.campaign.took.append(time.monotonic() - begun)
        self.campaign.commit(work, result, fingerprint)
        verdict = "valid" if result["valid"] else f"not valid: {'; '.join(result['problems'])}"
        self.tell(f"{work.name} on {slot}: {result['metrics']['duration']:.1f} s, {verdict}; {self._left_in_words()}")

    def fail(self, slot: str, work: Work, why: str) -> None:
        begun, _ = self.begun.pop(slot)
        self.campaign.took.append(time.monotonic() - begun)
        self.campaign.status.failed[work.name] = why
        self.tell(f"{work.name} failed: {why}")

    def _left_in_words(self) -> str:
        status = self.campaign.status
        left = f", {time_left(status.left)}" if status.left and status.left >= 1 else ""
        return f"{status.done} of {status.trials} are there{left}"

    def show(self, schedule: Schedule, slots: int) -> None:
        self.campaign.show(schedule, slots)


def read_status(folder: Path) -> tuple[Status, bool]:
    """What a campaign was doing when it last said so, and whether a process is at it now. Raises ResultsError."""
    try:
        status = Status(**json.loads((folder / "status.json").read_text()))
        descriptor = lock(folder)
    except (OSError, ValueError, TypeError):
        raise ResultsError(f"there is no campaign in {folder}: begin one with `inalab campaign run FILE`") from None
    if descriptor is not None:
        os.close(descriptor)
    return status, descriptor is None
