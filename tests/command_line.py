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
from pathlib import Path

import psutil

from hosts.tally import Tally, tally
from testbed.trial import launch
from topologies import isolation


def inalab(*words: str, env: Mapping[str, str] | None = None, timeout: float = 150) -> subprocess.CompletedProcess[str]:
    """Run `inalab WORDS`; `env` is what the environment has beside ours.

    Raises AssertionError if it does not end in time, with what was printed and where each process was.
    """
    if words[0] == "launch":
        importlib.import_module(launch.OF_DDP)  # once for all commands
    folder = Path(tempfile.mkdtemp())  # a TemporaryDirectory would be removed at the end of every process that is forked
    try:
        files = folder / "output", folder / "errors"
        pid = isolation.fork(lambda: _main(words, env or {}, *files))
        end = time.monotonic() + timeout
        while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0):
            if time.monotonic() > end:
                _print_stacks(pid)
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                printed = "".join(file.read_text() for file in files)
                raise AssertionError(f"inalab {' '.join(words)} did not end within {timeout:g} s:\n{printed}")
            time.sleep(0.01)
        output, errors = (file.read_text() for file in files)
        return subprocess.CompletedProcess(["inalab", *words], os.waitstatus_to_exitcode(ended[1]), output, errors)
    finally:
        shutil.rmtree(folder)


def _print_stacks(pid: int) -> None:
    """Have the process and those that were forked from it print where they are."""
    above = psutil.Process(pid)
    for process in (above, *above.children(recursive=True)):
        with suppress(OSError, psutil.Error):
            caught = int(re.findall(r"^SigCgt:\s*(\w+)", Path(f"/proc/{process.pid}/status").read_text(), re.M)[0], 16)
            if caught >> (signal.SIGUSR1 - 1) & 1:  # not of a program that was executed since
                process.send_signal(signal.SIGUSR1)
                time.sleep(0.1)  # one after the other


def _main(words: tuple[str, ...], env: Mapping[str, str], output: Path, errors: Path) -> int:
    for descriptor, path in ((1, output), (2, errors)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    faulthandler.register(signal.SIGUSR1, os.dup(2))  # a worker's own descriptor 2 is a pipe
    os.environ.update(env)
    sys.argv = ["inalab", *words]
    sys.modules.pop("testbed.command.cli", None)  # its console has read the environment
    vars(tally).update(vars(Tally()))  # sums of other tests are none of this command's
    from testbed.command import cli

    try:
        cli.main()
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
            return 1
        return ended.code or 0
    return 0
