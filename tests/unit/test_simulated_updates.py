"""Asynchronous schemes, simulated: closed forms without costs, bounds on delays, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from inalab.schemes.tcp import TCP_OVERHEAD
from inalab.testbed.measures import barrier_wait, completions, mean_completion, transfers_to_server, update_seconds
from inalab.testbed.plan.settings import SettingsError, TrialSettings, make_settings
from inalab.testbed.simulator.computed import computed_trial
from inalab.testbed.simulator.mlfabric import ScheduledUpdates
from inalab.testbed.trial.errors import TrialError

COMMON: dict[str, Any] = {
    "racks": 1, "pipeline": "asynchronous", "workload": "tensor-100000", "steps": 1, "compute_ms": 100.0, "costs": "none",
}  # fmt: skip
UPDATE = TCP_OVERHEAD * 400_000 * 8 / 10e6  # seconds on a link of 10 Mbit/s


def trial(scheme: str, workers: int, seed: int = 1, **changes: Any) -> dict[str, Any]:
    settings = make_settings(TrialSettings, {**COMMON, "scheme": scheme, "workers": workers, **changes})
    return computed_trial(settings, seed) | {"settings": settings.resolved()}


def of(found: dict[str, Any], rank: int) -> list[dict[str, Any]]:
    return [r for r in found["steps"] if r["rank"] == rank]


@pytest.mark.parametrize("n", [1, 2, 4, 8, 16])
def test_updates_that_share_a_link_are_all_there_after_n_updates_time(n: int) -> None:
    found = trial("async", n)
    assert update_seconds(found) == pytest.approx(UPDATE)
    assert completions(found) == pytest.approx([n * UPDATE] * n, rel=1e-3)
    assert found["metrics"]["delay_mean"] == pytest.approx((n - 1) / 2) and found["valid"]


@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_updates_in_order_are_there_after_half_of_that_on_average(n: int) -> None:
    found = trial("mlfabric", n, **{"mlfabric.aggregate": False})
    assert completions(found) == pytest.approx([i * UPDATE for i in range(1, n + 1)], rel=1e-3)
    assert mean_completion(found) == pytest.approx((n + 1) / 2 * UPDATE, rel=1e-3)
    without = trial("mlfabric", n, **{"mlfabric.aggregate": False, "mlfabric.order": False})
    assert mean_completion(without) == pytest.approx(n * UPDATE, rel=1e-3)


@pytest.mark.parametrize(("n", "slots"), [(8, 4), (16, 6), (32, 8)])
def test_so_many_transfers_bring_all_updates_where_workers_add_them(n: int, slots: int) -> None:
    found = trial("mlfabric", n)
    assert transfers_to_server(found) == slots and len(completions(found)) == n
    assert max(completions(found)) == pytest.approx(slots * UPDATE, rel=1e-3)


def test_aggregators_are_drawn_from_the_seed_and_wait_at_the_barrier() -> None:
    changes: dict[str, Any] = {"steps": 4, "topology": "mixed-rates", "slow_share": 0.5, "slow_rate": 5.0}
    one, again, other = (trial("mlfabric", 8, seed, **changes, **{"mlfabric.aggregator": "random"}) for seed in (1, 1, 2))
    planned, as_planned = (trial("mlfabric", 8, seed, **changes) for seed in (1, 2))
    assert one["steps"] == again["steps"] != other["steps"] and planned["steps"] == as_planned["steps"]
    assert barrier_wait(one) > 0.1 * UPDATE > barrier_wait(planned)
    for r in (r["update"] for r in one["steps"]):
        assert r["requested"] <= r["turn"] <= r["sent"]


def test_models_are_passed_on() -> None:
    """k transfers' time after the updates are there, 2^k - 1 workers can have the model; from the server alone k."""
    spread, alone = (trial("mlfabric", 7, **{"mlfabric.distribute": on}) for on in (True, False))
    assert max(r["ended"] for r in spread["steps"]) < max(r["ended"] for r in alone["steps"]) - 0.99 * UPDATE
    assert {r["update"]["fetched_from"] for r in alone["steps"]} == {"server 0"}
    assert len({r["update"]["fetched_from"] for r in spread["steps"]}) > 1


def test_without_staleness_training_is_synchronous() -> None:
    slow = {"straggler": "exponential", "straggler_mean": 2.0, "steps": 5}
    found = trial("ssp", 4, **{"ssp.staleness": 0}, **slow)
    for step in range(5):
        own = [r for r in found["steps"] if r["step"] == step]
        assert {r["version"] for r in own} == {4 * (step + 1)}
    free = trial("ssp", 4, **{"ssp.staleness": 100}, **slow)
    plain = trial("async", 4, **slow)
    assert free["steps"] == plain["steps"]
    assert free["metrics"]["duration"] < found["metrics"]["duration"]


@pytest.mark.parametrize("staleness", [1, 2])
def test_nobody_is_further_ahead_than_allowed(staleness: int) -> None:
    slow = {"straggler": "slow", "straggler_rank": 0, "straggler_factor": 6.0, "steps": 6, "compute_ms": 2000.0}

    def most_ahead(found: dict[str, Any]) -> int:
        """Of the updates that a worker has the next model for, over those of the slow one that are applied then."""
        applied = [r["update"]["applied"] for r in of(found, 0)]
        return max(r["step"] + 1 - sum(at <= r["ended"] for at in applied) for r in found["steps"] if r["rank"])

    assert most_ahead(trial("ssp", 4, **{"ssp.staleness": staleness}, **slow)) == staleness
    assert most_ahead(trial("async", 4, **slow)) > 2


@pytest.mark.parametrize("bound", [2, 5])
def test_no_update_that_is_applied_is_later_than_its_bound(bound: int) -> None:
    found = trial("mlfabric", 8, **{"mlfabric.delay": bound}, steps=6)
    delays = [r["delay"] for r in found["steps"] if r["delay"] is not None]
    assert max(delays) <= bound and len(delays) < len(found["steps"])  # some were dropped
    dropped = [r for r in found["steps"] if r["delay"] is None]
    assert all(r["update"]["sent"] is None and r["update"]["applied"] is None for r in dropped)


@pytest.mark.parametrize(("racks", "workers", "near", "away"), [(2, 2, 10 / 3.75, 10 / 1.25), (4, 1, 10 / 7.5, 12.0)])
def test_an_uplink_that_is_slow_decides(racks: int, workers: int, near: float, away: float) -> None:
    """The server is in rack 0. Those in other racks share its downlink's 2.5 Mbit/s; those in its own have what they leave."""
    found = trial("async", workers, racks=racks, uplink_rate=2.5)
    for r in found["steps"]:
        takes = (r["update"]["applied"] - r["update"]["requested"]) / UPDATE
        assert takes == pytest.approx(near if r["rank"] < workers else away, rel=1e-3)


def test_the_same_seed_gives_the_same_records() -> None:
    settings = {"straggler": "exponential", "steps": 4, "costs": "embedded"}
    one, other = (trial("mlfabric", 6, 3, **settings) for _ in range(2))
    assert one["steps"] == other["steps"] and one["metrics"] == other["metrics"]
    assert trial("mlfabric", 6, 4, **settings)["metrics"] != one["metrics"]


@pytest.mark.parametrize(
    ("changes", "wording"),
    [
        ({"scheme": "mlfabric", "mlfabric.distance": 1.0}, "mlfabric.distance is not simulated"),
        ({"scheme": "mlfabric", "mlfabric.chain": True}, "mlfabric.chain is not simulated"),
        ({"scheme": "async", "loss": 0.01}, "losses of scheme async are not simulated"),
        ({"scheme": "byteps"}, "pipeline asynchronous of scheme byteps is not simulated"),
        ({"scheme": "ssp", "latency": 1.0}, "latency is not simulated"),
    ],
)
def test_what_is_not_simulated_is_refused(changes: dict[str, Any], wording: str) -> None:
    with pytest.raises(SettingsError, match=wording):
        computed_trial(make_settings(TrialSettings, {**COMMON, **changes}), 1)


def test_a_simulation_that_stands_still_is_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScheduledUpdates, "_drop", lambda self, worker: None)  # a worker that is not told
    with pytest.raises(TrialError, match=r"the simulation stands still, and workers? .* wait"):
        trial("mlfabric", 8, **{"mlfabric.delay": 1}, steps=6)
