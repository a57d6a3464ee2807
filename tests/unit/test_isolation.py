"""How a forked process begins and ends."""

from __future__ import annotations

import subprocess
import sys
from subprocess import PIPE

import pytest

from inalab.topologies.isolation import ending


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (3, "ended with exit code 3"), (0, "ended with exit code 0"), (128, "ended with exit code 128"),
        (255, "ended with exit code 255"), (-9, "was killed by SIGKILL"), (137, "was killed by SIGKILL"),
        (139, "was killed by SIGSEGV"), (-15, "was killed by SIGTERM"), (-40, "was killed by signal 40"),
    ],
)  # fmt: skip
def test_every_signal_has_its_name(code: int, words: str) -> None:
    assert ending(code) == words


INTERRUPTED_IN_ITS_FORK = """
import os, signal
from inalab.topologies.isolation import fork, wait

os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGINT))
try:
    code = wait(fork(lambda: 0))
finally:
    print(f"the caller's frames end in the caller: {os.getpid()}")
print(code)
"""


def test_an_interrupt_during_a_fork_stays_in_the_child() -> None:
    """Ctrl-C reaches the whole process group, and so a child that has not yet begun its work."""
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED_IN_ITS_FORK], stdout=PIPE, stderr=PIPE, text=True) as process:
        output, errors = process.communicate(timeout=30)
    assert output == f"the caller's frames end in the caller: {process.pid}\n130\n"
    assert errors == ""
    assert process.returncode == 0


INTERRUPTED_AFTER_ITS_FORK = """
import os, signal, time
from inalab.topologies.isolation import fork

os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGINT))
try:
    fork(lambda: time.sleep(60) or 0)
except KeyboardInterrupt:
    pass
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("no child is left")
"""


def test_an_interrupt_during_a_fork_leaves_no_child_whose_pid_nobody_knows() -> None:
    result = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AFTER_ITS_FORK], capture_output=True, text=True, timeout=30, check=False
    )
    assert (result.stdout, result.stderr, result.returncode) == ("no child is left\n", "", 0)


DEAD_BEFORE_ITS_CHILD_ASKS = """
import os, select, signal
from inalab.topologies import isolation

asks = isolation.die_with_parent

def late():
    dead = select.poll()
    dead.register(parent, select.POLLIN)
    dead.poll()
    asks()

parent = os.pidfd_open(os.getpid())
isolation.die_with_parent = late
isolation.fork(lambda: print("works for nobody", flush=True) or 0)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_child_whose_parent_died_in_its_fork_ends_too() -> None:
    result = subprocess.run(
        [sys.executable, "-c", DEAD_BEFORE_ITS_CHILD_ASKS], capture_output=True, text=True, timeout=30, check=False
    )
    assert (result.stdout, result.stderr, result.returncode) == ("", "", -9)
