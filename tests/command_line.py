"""The command line in a fork of the tests' own process, which has loaded what a new one would need seconds for."""

from __future__ import annotations

import faulthandler
import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self

import psutil

from inalab.hosts.tally import Tally, tally
from inalab.testbed.trial import launch
from inalab.topologies import isolation

LOADED = {"launch": ("inalab.testbed.command.runner", launch.OF_DDP), "run": ("inalab.testbed.command.runner",)}


class Command:
    """`inalab WORDS` under way. As a context manager it is killed at the end, if it has not ended."""

    def __init__(self, *words: str, env: Mapping[str, str] | None = None, cwd: Path | None = None, keys: str | None = None) -> None:
        """`env` is what its environment has beside ours; `keys` what is typed, None for a terminal at which nobody types.

        It is in a process group of its own.
        """
        for module in LOADED.get(words[0], ()):
            importlib.import_module(module)  # once for all commands
        self.words, self.returncode = words, None
        self.folder = Path(tempfile.mkdtemp())  # a TemporaryDirectory would be removed at the end of every process that is forked
        reader, self.keyboard = os.pipe()
        if keys is not None:
            os.write(self.keyboard, keys.encode())
            os.close(self.keyboard)
            self.keyboard = -1
        work = partial(_main, words, env or {}, cwd, (reader, self.keyboard), *self._files())
        self.pid = isolation.fork(work)
        os.close(reader)
        os.setpgid(self.pid, self.pid)

    def _files(self) -> tuple[Path, Path]:
        return self.folder / "output", self.folder / "errors"

    def printed(self) -> tuple[str, str]:
        """Its output and its errors so far."""
        output, errors = (file.read_text() if file.exists() else "" for file in self._files())
        return output, errors

    def poll(self) -> int | None:
        """Its exit code, -number for a signal; None while it runs."""
        if self.returncode is None and (ended := os.waitpid(self.pid, os.WNOHANG)) != (0, 0):
            self.returncode = os.waitstatus_to_exitcode(ended[1])
        return self.returncode

    def wait(self, timeout: float = 150) -> int:
        """Its exit code. AssertionError if it does not end in so many seconds, with what was printed and where each process was."""
        end = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                _print_stacks(self.pid)
                self.kill()
                raise AssertionError(f"inalab {' '.join(self.words)} did not end within {timeout:g} s:\n{''.join(self.printed())}")
            time.sleep(0.01)
        return code

    def kill(self) -> None:
        """End it by SIGKILL, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        if self.keyboard >= 0:
            os.close(self.keyboard)
        shutil.rmtree(self.folder)


def inalab(
    *words: str, env: Mapping[str, str] | None = None, cwd: Path | None = None, keys: str = "", timeout: float = 150
) -> subprocess.CompletedProcess[str]:
    """Run `inalab WORDS` to its end, which is AssertionError after `timeout` seconds. The rest is as `Command` has it."""
    with Command(*words, env=env, cwd=cwd, keys=keys) as command:
        code = command.wait(timeout)
        return subprocess.CompletedProcess(["inalab", *words], code, *command.printed())


def _print_stacks(pid: int) -> None:
    """Have the process and those that were forked from it print where they are."""
    above = psutil.Process(pid)
    for process in (above, *above.children(recursive=True)):
        with suppress(OSError, psutil.Error):
            caught = int(re.findall(r"^SigCgt:\s*(\w+)", Path(f"/proc/{process.pid}/status").read_text(), re.M)[0], 16)
            if caught >> (signal.SIGUSR1 - 1) & 1:  # not of a program that was executed since
                process.send_signal(signal.SIGUSR1)
                time.sleep(0.1)  # one after the other


def _main(
    words: tuple[str, ...], env: Mapping[str, str], cwd: Path | None, keyboard: tuple[int, int], output: Path, errors: Path
) -> int:
    os.setpgid(0, 0)
    os.dup2(keyboard[0], 0)
    for descriptor in keyboard:
        if descriptor > 0:
            os.close(descriptor)
    for descriptor, path in ((1, output), (2, errors)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    sys.stdin = os.fdopen(0)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    faulthandler.register(signal.SIGUSR1, os.dup(2))  # a worker's own descriptor 2 is a pipe
    os.environ.update(env)
    tempfile.tempdir = None  # what the environment says
    if cwd is not None:
        os.chdir(cwd)
    sys.argv = ["inalab", *words]
    sys.modules.pop("inalab.testbed.command.cli", None)  # its console has read the environment
    vars(tally).update(vars(Tally()))  # sums of other tests are none of this command's
    from inalab.testbed.command import cli

    try:
        cli.main()
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
            return 1
        return ended.code or 0
    return 0
