"""inalab watch: a trial that runs is found, shown, and stepped through packet by packet."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.command_line import Command, inalab

pytestmark = pytest.mark.quiet  # it watches the newest trial of this machine

TIMEOUT = 60.0  # seconds
SETTINGS = ("racks=1", "workers=2", "slots=4", "steps=100000", "patience=3600", "loss=0.01")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Command]:
    """A trial of two workers that goes on until it is interrupted."""
    with begun(tmp_path) as run:
        yield run


@contextmanager
def begun(results: Path, *more: str) -> Iterator[Command]:
    words = [word for setting in (*SETTINGS, *more) for word in ("--set", setting)]
    with Command("run", "quickstart", "--results", str(results), *words) as run:
        end = time.monotonic() + TIMEOUT
        while watch("--once").returncode:
            assert time.monotonic() < end and run.poll() is None, "no trial is found"
            time.sleep(0.1)
        yield run
        if run.poll() is None:
            os.kill(run.pid, signal.SIGINT)
            run.wait(30)


def watch(*words: str, keys: str = "") -> subprocess.CompletedProcess[str]:
    return inalab("watch", *words, keys=keys, timeout=60)


def received(text: str) -> int:
    found = re.search(r"received ([\d,]+)", text)
    assert found
    return int(found[1].replace(",", ""))


def test_a_running_trial_is_shown_and_stepped_through(running: Command) -> None:
    time.sleep(2)
    shown = watch("--once").stdout
    assert "switchml, 1 × 2 workers" in shown and "job 0, slots" in shown and "waited for" in shown
    stepped = watch("--pace", "0", keys="\n\n\n\n\nq\n")
    assert stepped.returncode == 0, stepped.stderr
    packets = re.findall(r"^\d+ from (h\d), \d+ bytes: job 0, worker (\d), kind (\w+)", stepped.stdout, re.MULTILINE)
    assert len(packets) >= 2 and {kind for _, _, kind in packets} <= {"UPDATE", "QUERY"}
    assert all(host == f"h{worker}" for host, worker, _ in packets)
    assert "has h" in stepped.stdout and "tor0 runs on" in stepped.stdout
    before = received(watch("--once").stdout)
    time.sleep(2)
    assert received(watch("--once").stdout) > before  # it runs on


def test_atps_windows_and_aggregators_are_shown(tmp_path: Path) -> None:
    windows = r"windows, in chunks: job 0, worker 0: [1-4], job 0, worker 1: [1-4] waited for"
    taken = r"job 0, aggregators \d+: free → has (h0, waits for h1|h1, waits for h0)"
    with begun(tmp_path, "scheme=atp"):
        shows(windows, lambda: watch("--once"))
        shows(taken, lambda: watch("--pace", "0", keys="\n" * 12 + "q\n"))


def shows(pattern: str, look: Callable[[], subprocess.CompletedProcess[str]]) -> None:
    """Look until there is what is looked for."""
    end = time.monotonic() + TIMEOUT
    while not re.search(pattern, shown := " ".join(look().stdout.split())):
        assert time.monotonic() < end, shown


def test_a_switch_that_there_is_not_is_refused(running: Command) -> None:
    refused = watch("--pace", "0", "--switch", "nix")
    assert refused.returncode == 1 and refused.stderr == "inalab: the trial has no switch nix: choose one of tor0\n"


def test_a_switch_runs_on_though_who_paused_it_is_killed(running: Command) -> None:
    with Command("watch", "--pace", "0") as watching:
        while "is paused" not in watching.printed()[0]:
            assert watching.poll() is None
            time.sleep(0.05)
        held = received(watch("--once").stdout)
        time.sleep(1)
        assert received(watch("--once").stdout) == held
        watching.kill()
    before = received(watch("--once").stdout)
    time.sleep(2)
    assert received(watch("--once").stdout) > before


def test_a_trial_that_was_paused_is_not_valid(tmp_path: Path) -> None:
    with begun(tmp_path, "steps=40", "compute_ms=200") as run:
        assert watch("--pace", "0", keys="\n\nq\n").returncode == 0
        end = time.monotonic() + TIMEOUT
        while not (found := [line for path in tmp_path.rglob("trials.jsonl") for line in path.read_text().splitlines()]):
            assert time.monotonic() < end and run.poll() is None, "the trial does not end"
            time.sleep(0.5)
    trial = json.loads(found[0])
    assert not trial["valid"] and "`inalab watch` paused a switch" in " ".join(trial["problems"])
