"""SIGKILL of a command, at any moment, leaves nothing: no process, no namespace, no temporary folder."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.network.leftovers import Leftovers
from tests.network.test_p4run import exercise

INALAB = [sys.executable, "-m", "testbed.command.cli"]
SMALL = ["--set", "racks=2", "--set", "workers=2"]
MOMENTS = (0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.5, 8.0)  # seconds after the start
GRACE = 5.0  # seconds for the kernel to end what is left
__all__ = ["exercise"]  # a fixture


def words(command: str, exercise: Path, folder: Path) -> list[str]:
    """The command, on something that lasts longer than the latest moment."""
    (folder / "campaign.toml").write_text('[[run]]\nexperiment = "quickstart"\nset = ["racks=1", "workers=2", "steps=400"]\n')
    return {
        "run": ["run", "quickstart", "--results", str(folder / "results"), *SMALL, "--set", "steps=400"],
        "launch": ["launch", *SMALL, "--", "tests/scripts/endless.py"],
        "p4run": ["p4run", str(exercise), "--p4runtime"],
        "lab": ["lab", "check", "labs/solutions/10-scheme"],
        "campaign": ["campaign", "run", str(folder / "campaign.toml"), "--results", str(folder / "results")],
    }[command]


@pytest.mark.usefixtures("ports")
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("command", ["run", "launch", "p4run", "lab", "campaign"])
def test_nothing_is_left(command: str, moment: float, exercise: Path, tmp_path: Path) -> None:
    (temporary := tmp_path / "temporary").mkdir()
    left = Leftovers()
    process = subprocess.Popen(
        [*INALAB, *words(command, exercise, tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True, env=os.environ | {"TMPDIR": str(temporary)},
    )  # fmt: skip
    time.sleep(moment)
    assert process.poll() is None, "it has ended by itself"
    family = process_and_descendants(process.pid)
    left.note(each.pid for each in family)
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(family, timeout=GRACE)
    assert not [each for each in alive if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
    end = time.monotonic() + GRACE
    while any(temporary.iterdir()) and time.monotonic() < end:
        time.sleep(0.05)
    assert not list(temporary.iterdir())
    left.check()


def process_and_descendants(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]
