"""Checking a submission: the tasks of its lab one after the other, each on its own."""

from __future__ import annotations

import traceback
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any

from inalab.testbed.lab.lab import Failure, Lab, Outcome, Task
from inalab.testbed.lab.workbench import Workbench

LONGEST = 20_000  # characters of a text that is kept


def check(lab: Lab, submission: Path) -> Iterator[Outcome]:
    """The outcome of each task, in order. What a student's program does wrong is an outcome; other errors are the check's own."""
    shared: dict[Hashable, Any] = {}
    for task in lab.tasks:
        yield _outcome(lab, task, submission, shared)


def _outcome(lab: Lab, task: Task, submission: Path, shared: dict[Hashable, Any]) -> Outcome:
    with Workbench(submission, lab.files, shared=shared) as bench:
        share, wording, trace = 1.0, "", ""
        try:
            earned = task.function(bench)
            for switch in bench.switches:
                switch.check_ends()
            if earned is not None:
                share, wording = min(1.0, max(0.0, earned.earned)), earned.why
        except Failure as failure:
            share, wording, trace = 0.0, str(failure), failure.trace
        except Exception as error:  # the check goes on, for others' sake; what it could not read is shown
            wording = f"the check cannot read what the program hands over: {type(error).__name__}: {error}"
            share, trace = 0.0, traceback.format_exc()
        if bench.guard.message:
            share, wording = 0.0, f"the submission's processes {bench.guard.message}"
        texts = (printable(text) for text in (wording, trace, bench.output()))
        return Outcome(task.name, round(share * task.points, 1), task.points, *texts)


def printable(text: str) -> str:
    """A text without control characters, which would move the cursor of who checks, and the end of it where it is long."""
    if len(text) > LONGEST:
        text = f"…{text[-LONGEST:]}"
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
