"""Scripts of torchft's over a switch: workers die, hang and come back, and no sum has in it whoever was not there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

TORCHFT = Path(sys.prefix) / "torchft"  # where set-up puts it
SUMS = "tests/scripts/torchft_sums.py"
pytestmark = pytest.mark.timeout(700)  # a script that waits for another one on a busy machine
needed = pytest.mark.skipif(not TORCHFT.is_dir(), reason="torchft is not installed")


def launched(faults: str, script: str, *words: str, scheme: str = "switchml") -> subprocess.CompletedProcess[str]:
    network = ("--set", "racks=2", "--set", "workers=2", *(("--set", f"faults={faults}") if faults else ()), "--scheme", scheme)
    command = [Path(sys.executable).with_name("inalab"), "launch", "--torchft", *network, "--", script, *words]
    return subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(TORCHFT)}, capture_output=True, text=True, check=False, timeout=600
    )


def members_of_steps(text: str) -> dict[int, set[str]]:
    """Who was in each step's sum, as the workers have it."""
    found = defaultdict(set)
    for step, members in re.findall(r"step (\d+) ([01]+)$", text, re.MULTILINE):
        found[int(step)].add(members)
    return found


@needed
@pytest.mark.parametrize(
    ("faults", "words", "code", "kept"),
    [
        ("restart h3 at 3; loss h1-tor0 0.01 at 1", ("come",), 0, 4),
        ("", ("go", "0", "2"), 128 + signal.SIGKILL, 2),
        ("hang h1 at 3 for 2", ("all",), 0, 4),
    ],
    ids=["one returns, at loss", "two die in a sum", "one hangs"],
)
def test_each_sum_is_of_those_who_are_there(tmp_path: Path, faults: str, words: tuple[str, ...], code: int, kept: int) -> None:
    done = launched(faults, SUMS, str(tmp_path), *words)
    assert done.returncode == code, done.stdout + done.stderr
    members = members_of_steps(done.stdout)
    assert max(members) - min(members) == len(members) - 1 and {len(found) for found in members.values()} == {1}
    assert len(set(re.findall(r"kept (\d+)", done.stdout))) == 1 and done.stdout.count("kept") == kept


@needed
def test_who_fails_by_itself_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    script = tmp_path / "x.py"
    script.write_text("import os, sys, time\nif os.environ['REPLICA_GROUP_ID'] == '1':\n    sys.exit('no')\ntime.sleep(2)\n")
    done = launched("", str(script))
    assert done.returncode == 1 and "[1] no" in done.stdout
    assert "worker 1 ended with exit code 1: the others go on" in done.stderr


@needed
def test_a_scheme_without_groups_is_refused() -> None:
    done = launched("", SUMS, scheme="ring")
    assert done.returncode == 1 and "choose another scheme" in done.stderr
