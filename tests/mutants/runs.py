"""Runs of pytest in process groups of their own, which can be ended at any time."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from tests.mutants.copies import environment
from tests.properties import MUTANTS

PYTEST = [sys.executable, "-m", "pytest", "-x", "-rfE", "--tb=no", "--no-header", "--color=no", "-p", "no:cacheprovider", "--deep"]
PROFILE = f"--hypothesis-profile={MUTANTS}"
GRACE = 10.0  # seconds from SIGTERM to SIGKILL
FAILED = re.compile(rb"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """How a run of tests ended: what failed first, or None where all passed."""

    failed: str | None
    timed_out: bool
    seconds: float


class EndedError(Exception):
    """The run was ended from outside."""


class Runs:
    """Runs of tests, several at a time."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.running: set[subprocess.Popen[bytes]] = set()
        self.stopping = threading.Event()

    def run(self, copy: Path, tests: list[str], patience: float | None = None) -> Run:
        """Run tests in a copy until the first that fails, for at most `patience` seconds. Raises EndedError after `stop`."""
        began = time.monotonic()
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                [*PYTEST, PROFILE, *tests], cwd=copy, env=environment(copy, self.cache), start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
            self.running.add(process)
            try:
                if self.stopping.is_set():
                    raise EndedError
                code: int | None = process.wait(patience)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                end(process)
                self.running.discard(process)
            if self.stopping.is_set():
                raise EndedError
            return Run(_failure(code, output), code is None, time.monotonic() - began)

    def stop(self) -> None:
        """End what runs, and start nothing more."""
        self.stopping.set()
        for process in list(self.running):
            end(process)


def _failure(code: int | None, output: IO[bytes]) -> str | None:
    if code == 0:
        return None
    if code is None:
        return "the time limit"
    output.seek(0)
    text = output.read()
    found = FAILED.search(text)
    last = text.strip().splitlines()[-1:] or [b"no output"]
    return (found.group(1) if found else last[0]).decode(errors="replace")


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all its descendants, those in sessions of their own too; what it has left behind in its own, if it is over.

    A test that fails may leave a switch that loops for ever.
    """
    if process.poll() is not None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return
    try:
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for send in (signal.SIGTERM, signal.SIGKILL):
        for member in family:
            try:
                member.send_signal(send)
            except psutil.NoSuchProcess:
                continue
        _, family = psutil.wait_procs(family, GRACE)
    process.wait()
