"""Trials of a campaign in a process of their own (testbed.campaign.one_process).

It is given a trial as a line of JSON each time. Each answer is a line, too: the result, or {"failed": why}.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

from inalab.testbed import backends
from inalab.testbed.campaign import machine
from inalab.testbed.campaign.identity import changed, replaced, scheme_files
from inalab.testbed.campaign.machines import Task
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError, TrialSettings, make_settings, named_scheme
from inalab.testbed.trial.errors import TrialError
from inalab.topologies import isolation

LOOKS = 0.2  # seconds between two looks whether to stop
Stop = Callable[[], bool]


def described(task: Task) -> dict[str, Any]:
    """A trial for another process or machine, as values that JSON has."""
    trial = task.trial
    return {
        "settings": trial.settings.model_dump(mode="json"), "seed": trial.seed, "target": task.target,
        "schemes": scheme_files(trial), "foreign": dict(task.foreign or {}),
    }  # fmt: skip


class Runner:
    """One trial after another: what takes long to import is there from the second on."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.foreign: dict[str, str] = {}  # that its process has imported
        self.errors: IO[bytes] | None = None

    def run(self, asked: dict[str, Any], stop: Stop) -> dict[str, Any]:
        """The result of a trial, {"failed": why}, {"stopped": true} where `stop` says so, or {"unfit": why} of this machine."""
        result = self._run(asked, stop)
        return {"unfit": why} if "failed" in result and (why := machine.unfit()) else result

    def _run(self, asked: dict[str, Any], stop: Stop) -> dict[str, Any]:
        if self.foreign != asked["foreign"]:  # a process keeps what it has imported
            self.end()
        self.foreign = asked["foreign"]
        try:
            process, errors = self._begun()
        except OSError as error:
            return {"failed": f"its process did not begin: {error}"}
        assert process.stdin and process.stdout
        errors.truncate(0)
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(asked).encode() + b"\n")
            process.stdin.flush()
        while not select.select([process.stdout], [], [], LOOKS)[0]:
            if stop():
                self.end()
                return {"stopped": True}
        try:
            result: dict[str, Any] = json.loads(process.stdout.readline())
        except ValueError:  # it has ended
            self.end()
            errors.seek(0)
            wording = errors.read().decode(errors="replace").strip().splitlines()[-1:]
            return {"failed": ": ".join([f"its process {isolation.ending(process.returncode)}", *wording])}
        return result

    def _begun(self) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
        if self.process is None or self.errors is None or self.process.poll() is not None:
            self.end()
            self.errors = tempfile.TemporaryFile("a+b")  # noqa: SIM115 (as long as the process)
            command = [sys.executable, "-m", "inalab.testbed.campaign.one_process", str(os.getpid())]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, start_new_session=True
            )
        return self.process, self.errors

    def end(self) -> None:
        """End the process, and a trial that it may be at."""
        if self.process is not None:
            self.process.kill()  # its trial's namespaces end with it
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                with suppress(BrokenPipeError):
                    if pipe:
                        pipe.close()
            self.process = None


def answer() -> None:
    """Run the trials that standard input asks for, one after another."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a trial prints is not the result
    for line in sys.stdin:
        out.write(json.dumps(_result(json.loads(line))) + "\n")
        out.flush()


def _result(asked: dict[str, Any]) -> dict[str, Any]:
    try:
        if differ := replaced(asked["foreign"]):
            return {"failed": differ}
        for source in asked["schemes"]:
            named_scheme(source)
        settings = make_settings(TrialSettings, asked["settings"])
        if differ := changed(Trial("", {}, settings, asked["seed"]), asked["foreign"]):
            return {"failed": differ}
        return backends.find(asked["target"]).run(settings, asked["seed"], lambda message: None)
    except (TrialError, SettingsError) as error:
        return {"failed": str(error)}
