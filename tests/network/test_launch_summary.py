"""What `inalab launch` says at the end: what the scheme summed and what Gloo carried; and scripts with a virtual compute time."""

from __future__ import annotations

import re

import pytest

from tests.command_line import inalab

SHAPE = ["--set", "racks=1", "--set", "workers=2", "--set", "host_rate=50"]
DDP = ["--", "experiments/scripts/train_ddp.py", "--steps", "3"]


@pytest.mark.parametrize("words", [(), ("--torchrun",)], ids=["plain", "torchrun"])
def test_it_tells_sums_from_what_gloo_carried(words: tuple[str, ...]) -> None:
    done = inalab("launch", *SHAPE, *words, *DDP)
    assert done.returncode == 0, done.stderr
    assert re.search(
        r"^inalab: switchml summed \d+ all-reduces of each worker, \d+\.\d [kM]B in all; median all-reduce [\d.]+ ms; 0 of all workers' [1-9]",
        done.stderr,
        re.M,
    )
    assert re.search(r"^inalab: switchml carried \d+ all-gathers and broadcasts of each worker, \d", done.stderr, re.M)
    (up,) = map(float, re.findall(r"^inalab: a worker's data link carried ([\d.]+) MB up and [\d.]+ MB down", done.stderr, re.M))
    assert 0.1 < up < 1
    assert "nothing was summed" not in done.stderr


def test_a_script_that_does_not_use_the_switches_is_told_so() -> None:
    done = inalab("launch", *SHAPE, "--set", "straggler=slow", *DDP, "--backend", "gloo")
    assert done.returncode == 0, done.stderr
    assert "inalab: nothing was summed by switchml: all-reduces by SUM use it after init_process_group" in done.stderr
    assert "inalab: a worker's data link carried" in done.stderr  # by a group that is Gloo's own
    assert "inalab: straggler had no effect: the script has no block of inalab.hosts.training.pace" in done.stderr


def test_a_scripts_steps_have_a_virtual_time_and_stragglers() -> None:
    slow = ["--set", "compute_ms=80", "--set", "straggler=slow", "--set", "straggler.rank=1", "--set", "straggler.factor=2"]
    done = inalab("launch", *SHAPE, *slow, "--", "tests/scripts/paced.py")
    assert done.returncode == 0, done.stderr
    steps = {
        int(rank): list(map(float, times.split())) for rank, times in re.findall(r"^\[(\d)\] steps of (.*)$", done.stdout, re.M)
    }
    assert all(seconds >= 0.08 for seconds in steps[0]) and min(steps[0]) < 0.9 * min(steps[1])
    assert all(seconds >= 0.16 for seconds in steps[1])
    assert "switchml summed 4 all-reduces of each worker, 0.2 MB in all" in done.stderr
    assert "had no effect" not in done.stderr
