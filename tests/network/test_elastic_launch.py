"""Scripts that begin again when a worker is lost or comes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import inalab

SCRIPT = "experiments/scripts/train_elastic.py"
SMALL = ("--set", "racks=2", "--set", "workers=2", "--set", "slots=64", "--set", "elastic=yes")


def launched(tmp_path: Path, faults: str, *words: str, steps: int = 60) -> str:
    faulty = ("--set", f"faults={faults}")
    done = inalab("launch", *SMALL, *faulty, *words, "--", SCRIPT, str(tmp_path / "model.pt"), "--steps", str(steps))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("words", [(), ("--scheme", "atp"), ("--scheme", "ring")], ids=["switchml", "atp", "ring"])
def test_scripts_begin_again_without_a_worker_and_go_on(tmp_path: Path, words: tuple[str, ...]) -> None:
    told = launched(tmp_path, "die h3 at 1.5", *words)
    assert "worker 3 was killed by SIGKILL: the scripts begin again, on workers 0, 1, 2" in told
    assert "after 60 steps, the last on 3 workers" in told


def test_also_without_the_first_and_with_one_that_comes(tmp_path: Path) -> None:
    told = launched(tmp_path, "die h0 at 1.5; restart h0 at 3", "--check-sums")
    assert "worker 0 was killed by SIGKILL: the scripts begin again, on workers 1, 2, 3" in told
    assert "worker 0 has come: the scripts begin again, on workers 0, 1, 2, 3" in told
    assert "the last on 4 workers" in told and "as exact as switchml states" in told


def test_a_script_that_hangs_is_begun_again_once_others_have_missed_it(tmp_path: Path) -> None:
    told = launched(tmp_path, "hang h2 at 2", "--set", "patience=2")
    assert "worker 2 hung: the scripts begin again, on workers 0, 1, 2, 3" in told and "the last on 4 workers" in told


def test_a_script_that_fails_by_itself_fails(tmp_path: Path) -> None:
    script = tmp_path / "x.py"
    script.write_text("import os, sys\nif os.environ['RANK'] == '1':\n    sys.exit('no')\n")
    done = inalab("launch", *SMALL, "--", str(script))
    assert done.returncode == 1 and "[1] no" in done.stdout and "worker 1 ended with exit code 1" in done.stderr


def test_nobody_is_left(tmp_path: Path) -> None:
    faults = "; ".join(f"die h{rank} at 1.5" for rank in range(4))
    done = inalab("launch", *SMALL, "--set", f"faults={faults}", "--", SCRIPT, str(tmp_path / "model.pt"))
    assert done.returncode == 1 and "was killed by SIGKILL" in done.stderr and "begin again" not in done.stderr
