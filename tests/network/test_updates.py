"""Asynchronous training with one model server on networks: what becomes of every update, who waits for whom, and who is named."""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from typing import Any

import numpy as np
import pytest

from inalab.hosts.messages import Lost, Message, Step
from inalab.switches.target import Target
from inalab.testbed.plan.settings import TrialSettings
from tests.network.running import run_trial
from tests.network.test_byteps import process
from tests.network.test_endings import fails, kill
from tests.network.test_trials import SMALL

STEPS = 12
SLOW: dict[str, Any] = {
    "racks": 1, "workers": 3, "steps": STEPS, "pipeline": "asynchronous", "compute_ms": 30, "loss": 0.005,
    "straggler": "slow", "straggler_rank": 1, "straggler_factor": 4.0,
}  # fmt: skip


@pytest.mark.parametrize(("scheme", "staleness"), [("async", None), ("ssp", 2)])
def test_every_update_is_applied_once_and_its_times_and_delays_are_told(target: Target, scheme: str, staleness: int | None) -> None:
    own = {} if staleness is None else {"ssp.staleness": staleness}
    result = run_trial(TrialSettings(**SMALL | SLOW | own | {"scheme": scheme}), 1, target, lambda message: None)
    metrics, records = result["metrics"], result["steps"]
    assert metrics["model_digest"] and metrics["final_accuracy"] > 0.3
    updates = sorted((r["update"] for r in records), key=lambda update: update["applied_at"])
    assert [update["applied_at"] for update in updates] == list(range(3 * STEPS))
    for r in records:
        update = r["update"]
        assert r["delay"] == update["applied_at"] - update["computed_on"] >= 0 and r["version"] > update["applied_at"]
        assert 0 < r["begun"] < update["requested"] <= update["sent"] < update["applied"] < r["ended"]
        assert update["way"] == "server 0" and update["norm"] > 0 and update["octets"] > 4 * r["elements"]
    assert metrics["delay_mean"] == pytest.approx(np.mean([r["delay"] for r in records]))
    by_rank = [[r for r in records if r["rank"] == rank] for rank in range(3)]
    ahead = max(
        k - sum(r["update"]["applied"] <= mine["ended"] for r in other)
        for own_ in by_rank
        for k, mine in enumerate(own_, 1)
        for other in by_rank
    )
    assert ahead == staleness if staleness is not None else ahead > 3
    if staleness is None:  # otherwise the fast ones wait, with a model that grows old, too
        slow, fast = (np.mean([r["delay"] for r in by_rank[rank][1:4]]) for rank in (1, 0))
        assert slow > fast


@pytest.mark.parametrize(
    ("victim", "named"),
    [
        ("server0", r"server 0 \(host s0\) was killed by SIGKILL"),
        ("scheduler", r"the scheduler beside server 0 \(host s0\) was killed by SIGKILL"),
    ],
)
def test_whom_all_need_is_named_when_it_dies(target: Target, victim: str, named: str) -> None:
    why = fails(target, Step, lambda: kill(lambda: process(victim)), scheme="mlfabric", pipeline="asynchronous")
    assert re.search(named, why), why


@pytest.mark.parametrize(
    ("scheme", "victim", "when"), [("async", 2, 2), ("ssp", 2, 2), ("mlfabric", 2, 2), ("mlfabric", 3, 5), ("mlfabric", 0, 3)]
)
def test_others_go_on_without_a_worker_that_dies(target: Target, scheme: str, victim: int, when: int) -> None:
    """It is killed while it computes, or while updates are under way, and named at once."""
    wording: list[float] = []

    def on_event(message: Message) -> None:
        if isinstance(message, Step) and (message.number, message.rank) == (when, 1):
            os.kill(process(f"worker{victim}"), signal.SIGKILL)
            wording.append(time.monotonic())
        elif isinstance(message, Lost):
            assert message.text == f"worker {victim} was killed by SIGKILL"
            wording.append(time.monotonic())

    steps = 30  # enough that some are left on a busy machine, where the test hears of one late
    change: dict[str, Any] = {"racks": 1, "workers": 4, "steps": steps, "pipeline": "asynchronous", "compute_ms": 30}
    result = run_trial(TrialSettings(**SMALL | change | {"scheme": scheme}), 1, target, on_event)
    assert result["problems"][-1] == f"worker {victim} was killed by SIGKILL" and not result["valid"]
    done = Counter(r["rank"] for r in result["steps"])
    assert all(done[rank] == steps for rank in range(4) if rank != victim) and done[victim] < steps
    assert result["metrics"]["model_digest"] and len(result["workers"]) == 3
    assert wording[1] - wording[0] < 10
