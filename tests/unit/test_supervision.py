"""Nothing is left of a session of tests: neither where a test leaves it, nor where pytest is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from tests.scripts.leaves import WAITING
from tests.supervision import INSIDE
from tests.tiers import Deep

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0  # seconds


def session(word: str) -> subprocess.Popen[str]:
    """Start pytest on the tests whose names contain a word; SIGINT is ignored, as a shell's & has it."""
    environment = {name: value for name, value in os.environ.items() if name != INSIDE and not name.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", "tests/scripts/leaves.py", "-o", "python_files=leaves.py", "-k", word]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return subprocess.Popen(
            command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
    finally:
        signal.signal(signal.SIGINT, before)


def waiting() -> list[psutil.Process]:
    """Programs that a session has started, in whatever namespace."""
    return [each for each in psutil.process_iter(["cmdline"]) if each.info["cmdline"] == ["sleep", WAITING]]


def eventually(what: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_what_a_test_leaves_is_told_and_fails() -> None:
    running = session("process or folder or end")
    output = running.communicate(timeout=PATIENCE)[0]
    assert running.returncode == 1
    assert f"tests/scripts/leaves.py::test_process has left a process: sleep {WAITING}" in output
    assert re.search(r"tests/scripts/leaves.py::test_folder has left /dev/shm/gw-\w+/left-", output)
    assert "test_end has left" not in output
    assert "processor time 0 min" in output
    assert not waiting()


def test_nothing_is_left_where_pytest_is_killed() -> None:
    running = session("waiting")
    eventually(lambda: len(waiting()) == 1)
    running.kill()
    running.communicate(timeout=PATIENCE)
    eventually(lambda: not waiting())


def test_ctrl_c_ends_it_although_it_was_ignored() -> None:
    running = session("waiting")
    eventually(lambda: len(waiting()) == 1)
    os.killpg(running.pid, signal.SIGINT)
    assert "KeyboardInterrupt" in running.communicate(timeout=PATIENCE)[0]
    assert running.returncode == 2
    eventually(lambda: not waiting())


def test_a_pattern_stands_for_tests_but_some() -> None:
    entry = Deep(tests="*/test_a.py::test_sum[*", but=("*[one*]",), why="")
    names = ["unit/test_a.py::test_sum[two]", "unit/test_a.py::test_sum[one rack]", "unit/test_b.py::test_sum[two]"]
    assert [entry.names(name) for name in names] == [True, False, False]
