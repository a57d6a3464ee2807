"""BytePS on networks: exact sums with loss and over racks, what its links carry, equal models in all pipelines, and who is named."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

import numpy as np
import pytest

from inalab.hosts.byteps.assignment import ByBytes, shares
from inalab.hosts.messages import Step
from inalab.switches.loss import Loss
from inalab.switches.target import Target
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.trial.harness import Job, all_reduce, as_tensors
from inalab.topologies.racks import Racks
from tests.network.running import run_trial
from tests.network.test_endings import fails, family, kill
from tests.network.test_trials import SMALL, name_of

SCHEME: dict[str, Any] = {"scheme": "byteps", "byteps.partition": 8, "byteps.credit": 200}


@pytest.mark.parametrize(
    ("racks", "loss"),
    [(Racks(1, 4, 50.0, None), 0.0), (Racks(1, 3, 50.0, None, 2), 0.01), (Racks(2, 2, 50.0, 50.0, 1), 0.01)],
    ids=["rack", "spare", "racks"],
)
def test_sums_are_those_of_the_stated_order_on_lossy_links_too(target: Target, racks: Racks, loss: float) -> None:
    tensors = as_tensors(racks, 30_000)
    settings = {"servers": racks.servers, "partition": 8.0, "credit": 100.0}
    job = Job(racks, "byteps", settings, Loss.bernoulli(loss) if loss else None)
    expected = tensors[0]
    for tensor in tensors[1:]:
        expected = expected + tensor
    for turns in all_reduce(job, target, tensors, times=2):
        for turn in turns:
            assert np.array_equal(turn["sum"], expected)


@pytest.mark.parametrize("spare", [0, 2, 4])
def test_each_hosts_link_carries_the_closed_form(target: Target, spare: int) -> None:
    n, steps, elements = 4, 3, 100_000
    settings = TrialSettings(
        racks=1, workers=n, host_rate=50, workload=f"tensor-{elements}", steps=steps, compute_ms=20,
        **SCHEME | {"byteps.servers": spare},
    )  # fmt: skip
    metrics = run_trial(settings, 1, target, lambda message: None)["metrics"]
    d = n * n + spare * n - 2 * spare
    expected = 2 * n * (n - 1) / d * 4 * elements * steps * settings.of_scheme().framing(settings.scheme_settings(), elements)
    for link in [*metrics["worker_bytes"], *metrics.get("server_bytes", [])]:
        for way in ("up", "down"):  # acknowledgements are a twentieth: 66 bytes for every two segments, or every one
            assert expected * 0.97 < link[way] < expected * 1.08


def test_a_slow_link_carries_what_it_can_in_the_time_of_the_others(target: Target) -> None:
    """Links of mixed rates: the linear program's shares, and the time in which all end together."""
    change: dict[str, Any] = {"topology": "mixed-rates", "slow_share": 0.25, "slow_rate": 12.5, "host_rate": 25}
    steps, elements = 3, 100_000
    settings = TrialSettings(racks=1, workers=4, workload=f"tensor-{elements}", steps=steps, compute_ms=20, **SCHEME | change)
    trial = run_trial(settings, 1, target, lambda message: None)
    plan, scheme, own = settings.plan(), settings.of_scheme(), settings.scheme_settings()
    load = scheme.load(plan)  # type: ignore[attr-defined]
    assert sorted(plan.rates(plan.hosts)) == [12.5, 25.0, 25.0, 25.0]
    for host, link in zip(plan.hosts, trial["metrics"]["worker_bytes"], strict=True):
        number = next(each.number for each in plan.links if each.lower == host.name)
        for way, up in (("up", True), ("down", False)):
            expected = load[number, up] * 4 * elements * steps * scheme.framing(own, elements)
            assert expected * 0.97 < link[way] < expected * 1.08
    assert scheme.bound(plan, own, elements) < trial["metrics"]["tat_median"]


def test_all_pipelines_train_one_model(target: Target) -> None:
    """And each begins a step when it says: with a barrier once all sums of the step before are over, across it before that."""
    digests = set()
    for pipeline in ("blocking", "barrier", "cross-barrier"):
        change: dict[str, Any] = {
            "workload": "digits-mlp-large",
            "host_rate": 100,
            "uplink_rate": 100,
            "compute_ms": 150,
            "steps": 6,
        }
        result = run_trial(TrialSettings(**SMALL | SCHEME | change | {"pipeline": pipeline}), 1, target, lambda message: None)
        digests.add(result["metrics"]["model_digest"])
        assert len({len(r.get("layers", [0])) for r in result["steps"]}) == 1
        steps = {(r["rank"], r["step"]): r for r in result["steps"]}
        early = [r["begun"] < steps[rank, step - 1]["ended"] for (rank, step), r in steps.items() if step]
        assert any(early) == (pipeline == "cross-barrier")
    assert len(digests) == 1 and "" not in digests


def test_asynchronous_workers_wait_for_nobody_and_end_with_one_model(target: Target) -> None:
    slow: dict[str, Any] = {"straggler": "slow", "straggler_rank": 1, "straggler_factor": 4.0}
    change: dict[str, Any] = {"racks": 1, "workers": 3, "steps": 12, "loss": 0.005, "pipeline": "asynchronous", "compute_ms": 30}
    result = run_trial(TrialSettings(**SMALL | SCHEME | slow | change), 1, target, lambda message: None)
    metrics, records = result["metrics"], result["steps"]
    assert metrics["model_digest"]
    by_rank = [[r for r in records if r["rank"] == rank] for rank in range(3)]
    assert [len(own) for own in by_rank] == [12, 12, 12]
    assert by_rank[0][-1]["ended"] < by_rank[1][-1]["ended"]
    assert max(r["version"] for r in records) <= 36
    assert metrics["final_accuracy"] > 0.3
    assert metrics["delay_mean"] == pytest.approx(np.mean([r["delay"] for r in records]))
    for r in records:
        update = r["update"]
        assert r["begun"] <= update["requested"] <= update["sent"] < update["applied"] < r["ended"] and update["norm"] > 0
        assert update["applied_at"] - update["computed_on"] == r["delay"] and update["octets"] == 4 * r["elements"]


def process(name: str) -> int:
    return next(int(p.pid) for p in family() if name_of(p) == name)


@pytest.mark.parametrize(
    ("victim", "named"),
    [
        ("server-of1", r"the server of worker 1 \(host h1\) was killed by SIGKILL"),
        ("server0", r"server 0 \(host s0\) was killed by SIGKILL"),
        ("worker2", r"worker 2 was killed by SIGKILL"),
    ],
)
@pytest.mark.parametrize("pipeline", ["blocking", "asynchronous"])
def test_whoever_dies_is_named(target: Target, victim: str, named: str, pipeline: str) -> None:
    why = fails(target, Step, lambda: kill(lambda: process(victim)), **SCHEME, servers=1, pipeline=pipeline)
    assert re.search(named, why), why
    assert "said nothing more" not in why


@pytest.mark.parametrize(("victim", "named"), [("server-of1", "the service of worker 1"), ("server0", "server 0")])
def test_a_service_that_hangs_is_named(target: Target, victim: str, named: str) -> None:
    why = fails(target, Step, lambda: os.kill(process(victim), signal.SIGSTOP), **SCHEME, servers=1)
    assert f"{named} has not answered for 4 s" in why, why


def test_slow_links_get_small_shares() -> None:
    """What ByBytes deals out follows shares that were made for unequal links."""
    parts = shares(4, [10.0, 10.0, 10.0, 5.0, 10.0, 5.0])
    carried = [0] * 6
    for piece in ByBytes(parts, 1000).cut("layer", 1_000_000):
        carried[piece.service] += piece.size
    assert carried[3] < carried[0] / 2
    assert carried[5] == pytest.approx(carried[4] / 2, rel=0.01)
