"""Whole trials: equal models under faults, deaths that are told, nothing left behind, two at a time."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from inalab.hosts.messages import Message, Step
from inalab.hosts.training.replica import Replica
from inalab.switches.target import Target
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.trial.configuration import switch_commands
from inalab.testbed.trial.errors import TrialError
from tests.command_line import Command
from tests.floats import dequantized, exponents, quantized
from tests.network.leftovers import Leftovers, interfaces
from tests.network.running import run_trial
from tests.summed import summed

SMALL: dict[str, Any] = {
    "racks": 2,
    "workers": 2,
    "steps": 6,
    "host_rate": 50,
    "uplink_rate": 50,
    "compute_ms": 15,
    "evaluate_every": 3,
}


def trial(target: Target, seed: int = 1, **change: Any) -> dict[str, Any]:
    return run_trial(TrialSettings(**{**SMALL, **change}), seed, target, lambda message: None)


def test_faults_change_no_bit_of_the_model(target: Target) -> None:
    plain = trial(target)
    digest = plain["metrics"]["model_digest"]
    assert plain["metrics"]["loss_achieved"] == 0
    for faults in ({"loss": 0.02}, {"loss": 0.02, "burst": 5}, {"straggler": "slow", "straggler_rank": 3}):
        faulty = trial(target, **faults)
        assert faulty["metrics"]["model_digest"] == digest, faults
        assert not [p for p in faulty["problems"] if "loss was" in p or "dropped" in p], faulty["problems"]
        if "loss" in faults:
            assert faulty["metrics"]["loss_achieved"] == pytest.approx(0.02, rel=0.5)
            assert faulty["metrics"]["retransmissions"] > 0
    assert trial(target)["metrics"]["model_digest"] == digest
    assert trial(target, seed=2)["metrics"]["model_digest"] != digest


def test_the_model_is_bit_for_bit_the_one_that_a_single_process_computes(target: Target) -> None:
    """All workers' gradients on this processor, quantized and added by formula. Other processors compute other last bits."""
    settings = TrialSettings(**SMALL)
    size = settings.racks * settings.workers
    replicas = [Replica(settings.workload, 1, rank, size) for rank in range(size)]
    for step in range(settings.steps):
        gradients = [replica.gradient(step).layers[0].numpy() for replica in replicas]
        rows = [np.pad(g, (0, -len(g) % settings.k)).reshape(-1, settings.k) for g in gradients]
        codes = np.max([exponents(x) for x in rows], axis=0)
        total = np.sum([quantized(x, codes, size) for x in rows], axis=0, dtype=np.int32)
        mean = dequantized(total, codes, size).reshape(-1)[: len(gradients[0])]
        for replica in replicas:
            summed(replica, torch.from_numpy(mean.copy()))
    assert trial(target)["metrics"]["model_digest"] == replicas[0].digest()


def test_copies_that_a_full_queue_drops_make_a_trial_invalid(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """simple_switch drops them in silence: the program's own counters tell of it."""
    slow = ["set_queue_rate 2000", "set_queue_depth 2"]
    monkeypatch.setattr("inalab.testbed.trial.configuration.switch_commands", lambda *of: [*switch_commands(*of), *slow])
    result = trial(target, racks=1, workers=3, steps=2)
    assert result["metrics"]["queue_drops"] > 0
    assert [p for p in result["problems"] if "dropped in queues" in p]
    assert result["switches"]["tor0"]["copies_missing"] > 0


def test_a_straggler_is_waited_for_and_padding_is_virtual(target: Target) -> None:
    result = trial(target, straggler="slow", straggler_rank=1, straggler_factor=4)
    by_rank = {r: [s for s in result["steps"] if s["rank"] == r] for r in range(4)}
    slow, fast = ([s["busy"] for s in by_rank[rank]] for rank in (1, 0))
    assert min(slow) == pytest.approx(0.060, abs=0.002)
    assert min(fast) == pytest.approx(0.015, abs=0.002)
    assert min(s["ended"] - s["begun"] for s in by_rank[0][1:]) > 0.060


@pytest.mark.parametrize("scheme", ["switchml", "atp", "ring", "ps"])
def test_a_worker_slower_than_everybodys_patience_ends_nothing(target: Target, atp_target: Target, scheme: str) -> None:
    slow = {"straggler": "slow", "straggler_rank": 1, "straggler_factor": 200, "patience": 1.5, "steps": 2}
    result = trial(atp_target if scheme == "atp" else target, scheme=scheme, **slow)
    assert len(result["steps"]) == 8
    assert min(s["tat"] for s in result["steps"] if s["rank"] == 0) > 2.0


def test_virtual_time_that_is_too_short_makes_a_trial_invalid(target: Target) -> None:
    result = trial(target, compute_ms=0.01)
    assert not result["valid"]
    assert any("longer than its virtual time" in p for p in result["problems"])


@pytest.mark.parametrize("victim", [0, 3])
def test_a_worker_that_dies_ends_the_trial_by_name(target: Target, victim: int) -> None:
    killed: list[int] = []

    def on_event(message: Message) -> None:
        if isinstance(message, Step) and message.number == 2 and not killed:
            killed.append(worker_pid(victim))
            os.kill(killed[0], signal.SIGKILL)

    with pytest.raises(TrialError) as caught:
        run_trial(TrialSettings(**{**SMALL, "steps": 2000}), 1, target, on_event)
    text = str(caught.value)
    assert f"worker {victim} was killed by SIGKILL" in text
    assert "job 0, slot" in text
    assert f"has not seen worker {victim}" in text or f"has not seen rack {victim // 2}" in text


def name_of(process: psutil.Process) -> str:
    """A process's name, empty if it has ended meanwhile."""
    try:
        return str(process.name())
    except psutil.NoSuchProcess:
        return ""


def workers_below(pid: int) -> dict[str, int]:
    """The worker processes among a process's descendants: name to pid."""
    return {name: p.pid for p in psutil.Process(pid).children(recursive=True) if (name := name_of(p)).startswith("worker")}


def worker_pid(rank: int) -> int:
    """The worker of a rank, of the trial that this process runs; seen from outside the trial's namespaces."""
    return workers_below(os.getpid())[f"worker{rank}"]


def start_run(results: Path, **change: Any) -> Command:
    settings = {**SMALL, "steps": 400, **change}
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    runs.append(Command("run", "quickstart", "--results", str(results), *words))
    return runs[-1]


runs: list[Command] = []


@pytest.fixture(autouse=True)
def _runs_end() -> Iterator[None]:
    """Also where a test fails."""
    yield
    for run in runs:
        with run:
            pass
    runs.clear()


def wait_for_training(process: Command) -> list[psutil.Process]:
    """Until workers are there; all processes of the run."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if len(workers_below(process.pid)) == 4:
            time.sleep(0.5)
            return psutil.Process(process.pid).children(recursive=True)
        time.sleep(0.05)
    raise AssertionError("no workers appeared")


@pytest.mark.parametrize("when", ["at once", "in training"])
def test_sigkill_leaves_nothing(tmp_path: Path, when: str) -> None:
    left = Leftovers()
    process = start_run(tmp_path)
    family = wait_for_training(process) if when == "in training" else []
    while len(family) < 3:  # at once: while the network is being built
        family = psutil.Process(process.pid).children(recursive=True)
    left.note(p.pid for p in family)
    process.kill()
    _, alive = psutil.wait_procs(family, timeout=5)
    assert not [p for p in alive if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    time.sleep(0.2)
    left.check()


def test_ctrl_c_keeps_results_and_leaves_nothing(tmp_path: Path) -> None:
    before = interfaces()
    process = start_run(tmp_path, steps=30)
    folder = None
    end = time.monotonic() + 120
    while time.monotonic() < end:
        found = list(tmp_path.glob("quickstart/*/trials.jsonl"))
        if found:
            folder = found[0].parent
            break
        time.sleep(0.1)
    assert folder is not None
    family = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGINT)
    code, (output, errors) = process.wait(180), process.printed()
    assert code == 130, output + errors
    assert "Traceback" not in output + errors
    psutil.wait_procs(family, timeout=5)
    assert interfaces() == before
    record = json.loads((folder / "run.json").read_text())
    assert record["finished"] is False
    assert (folder / "report.html").exists()
    assert len((folder / "trials.jsonl").read_text().splitlines()) >= 1


def test_two_experiments_at_once_do_not_touch_each_other(tmp_path: Path) -> None:
    processes = [start_run(tmp_path / name, steps=2, compute_ms=40) for name in ("a", "b")]
    for process in processes:
        assert process.wait(120) == 0, "".join(process.printed())
    digests = set()
    for name in ("a", "b"):
        (lines,) = list((tmp_path / name).glob("quickstart/*/trials.jsonl"))
        for line in lines.read_text().splitlines():
            digests.add(json.loads(line)["metrics"]["model_digest"])
    assert len(digests) == 1
    (report,) = list((tmp_path / "a").glob("quickstart/*/report.html"))
    page = report.read_text()
    assert "Compared bit for bit, the final model is the same" in page
    assert sorted(digests)[0][:12] in page
    assert {p.suffix for p in report.parent.iterdir()} >= {".png", ".svg", ".html", ".json", ".jsonl"}
