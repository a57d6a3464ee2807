"""SIGKILL of a command, at any moment, leaves nothing: no process, no namespace, no temporary folder."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import psutil
import pytest

from tests.command_line import Command
from tests.labs.test_live import begun
from tests.network.leftovers import Leftovers
from tests.network.test_p4run import exercise

ROOT = Path.cwd()  # the exercise is another folder
SMALL = ["--set", "racks=2", "--set", "workers=2"]
MOMENTS = (0.1, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.5, 8.0)  # seconds after the start
GRACE = 5.0  # seconds for the kernel to end what is left
__all__ = ["exercise"]  # a fixture


def words(command: str, exercise: Path, folder: Path) -> list[str]:
    """The command, on something that lasts longer than the latest moment."""
    (folder / "campaign.toml").write_text('[[run]]\nexperiment = "quickstart"\nset = ["racks=1", "workers=2", "steps=400"]\n')
    begun("10-scheme", folder / "lab")
    return {
        "run": ["run", "quickstart", "--results", str(folder / "results"), *SMALL, "--set", "steps=400"],
        "launch": ["launch", *SMALL, "--", "tests/scripts/endless.py"],
        "p4run": ["p4run", "topology.json", "--p4runtime"],
        "lab": ["lab", "check", str(folder / "lab")],
        "campaign": ["campaign", "run", str(folder / "campaign.toml"), "--results", str(folder / "results")],
    }[command]


@pytest.mark.usefixtures("ports")
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("command", ["run", "launch", "p4run", "lab", "campaign"])
def test_nothing_is_left(command: str, moment: float, exercise: Path, tmp_path: Path) -> None:
    temporary = Path(tempfile.mkdtemp())  # a socket's path is short
    left = Leftovers()
    with Command(
        *words(command, exercise, tmp_path), env={"TMPDIR": str(temporary)}, cwd=exercise if command == "p4run" else ROOT
    ) as process:
        time.sleep(moment)
        assert process.poll() is None, f"it has ended by itself: {process.printed()}"
        family = process_and_descendants(process.pid)
        left.note(each.pid for each in family)
        process.kill()
    _, alive = psutil.wait_procs(family, timeout=GRACE)
    assert not [each for each in alive if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
    end = time.monotonic() + GRACE
    while any(temporary.iterdir()) and time.monotonic() < end:
        time.sleep(0.05)
    assert not list(temporary.rglob("*"))
    temporary.rmdir()
    left.check()


def process_and_descendants(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]
