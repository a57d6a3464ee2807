"""inalab watch: a trial that runs is found, shown, and stepped through packet by packet."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

pytestmark = pytest.mark.quiet  # it watches the newest trial of this machine

INALAB = [sys.executable, "-m", "testbed.command.cli"]
TIMEOUT = 60.0  # seconds
SETTINGS = ("racks=1", "workers=2", "slots=4", "steps=100000", "patience=3600", "loss=0.01")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A trial of two workers that goes on until it is interrupted."""
    with begun(tmp_path) as run:
        yield run


@contextmanager
def begun(results: Path, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    words = [word for setting in (*SETTINGS, *more) for word in ("--set", setting)]
    command = [*INALAB, "run", "quickstart", "--results", str(results), *words]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        end = time.monotonic() + TIMEOUT
        while watch("--once").returncode:
            assert time.monotonic() < end and run.poll() is None, "no trial is found"
            time.sleep(0.5)
        yield run
    finally:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGINT)
        run.wait(timeout=30)


def watch(*words: str, keys: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([*INALAB, "watch", *words], input=keys, capture_output=True, text=True, check=False, timeout=60)


def received(text: str) -> int:
    found = re.search(r"received ([\d,]+)", text)
    assert found
    return int(found[1].replace(",", ""))


def test_a_running_trial_is_shown_and_stepped_through(running: subprocess.Popen[bytes]) -> None:
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
    with begun(tmp_path, "scheme=atp"):
        time.sleep(2)
        shown = " ".join(watch("--once").stdout.split())
        stepped = watch("--pace", "0", keys="\n" * 12 + "q\n").stdout
    assert re.search(r"windows, in chunks: job 0, worker 0: [1-4], job 0, worker 1: [1-4] waited for", shown), shown
    assert re.search(r"job 0, aggregators \d+: free → has (h0, waits for h1|h1, waits for h0)", stepped), stepped


def test_a_switch_that_there_is_not_is_refused(running: subprocess.Popen[bytes]) -> None:
    refused = watch("--pace", "0", "--switch", "nix")
    assert refused.returncode == 1 and refused.stderr == "inalab: the trial has no switch nix: choose one of tor0\n"


def test_a_switch_runs_on_though_who_paused_it_is_killed(running: subprocess.Popen[bytes]) -> None:
    command = [*INALAB, "watch", "--pace", "0"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout and "is paused" in watching.stdout.readline()
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
    assert not trial["valid"] and "somebody who watched paused a switch" in " ".join(trial["problems"])
