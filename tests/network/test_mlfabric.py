"""MLfabric on networks: what becomes of every update, that links carry one at a time, and who is named."""

from __future__ import annotations

import os
import signal
import time
from itertools import pairwise
from typing import Any

import pytest

from inalab.hosts.messages import Lost, Message, Step
from inalab.schemes.tcp import TCP_OVERHEAD
from inalab.switches.target import Target
from inalab.testbed.measures import fault_times
from inalab.testbed.plan.settings import SettingsError, TrialSettings
from inalab.testbed.trial.errors import TrialError
from tests.network.running import run_trial
from tests.network.test_endings import called, fails, kill
from tests.network.test_trials import SMALL

STEPS = 8
SETTINGS: dict[str, Any] = {
    "scheme": "mlfabric", "pipeline": "asynchronous", "racks": 1, "workers": 4, "steps": STEPS, "compute_ms": 40, "host_rate": 10,
}  # fmt: skip


def updates(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With who and the step in it."""
    return [r["update"] | {"rank": r["rank"], "step": r["step"]} for r in records]


@pytest.mark.parametrize(("aggregate", "bound"), [(False, None), (True, None), (True, 2)])
def test_updates_go_one_after_another_within_the_bound(target: Target, aggregate: bool, bound: int | None) -> None:
    own = {"mlfabric.aggregate": aggregate} | ({} if bound is None else {"mlfabric.delay": bound})
    result = run_trial(TrialSettings(**SMALL | SETTINGS | own), 1, target, lambda message: None)
    found = updates(result["steps"])
    applied = [u for u in found if u["applied_at"] is not None]
    assert result["metrics"]["model_digest"] and len(found) == 4 * STEPS
    assert len(applied) == 4 * STEPS or bound is not None
    for u in found:
        if u["applied_at"] is None:
            assert (u["sent"], u["applied"], u["octets"], u["way"]) == (None, None, 0, "")
        else:
            assert 0 <= u["applied_at"] - u["computed_on"] <= (10**6 if bound is None else bound)
            assert u["requested"] <= u["sent"] < u["applied"]
    direct = sorted((u for u in applied if u["way"] == "server 0"), key=lambda u: u["sent"])
    versions = [u["applied_at"] for u in direct]
    assert versions == sorted(set(versions))
    for before, after in pairwise(direct):
        assert after["sent"] >= before["applied"]
    if not aggregate:
        assert len(direct) == len(applied) and sorted(versions) == list(range(4 * STEPS))
    else:
        assert len(direct) < len(applied)


def test_jobs_under_one_scheduler_train_beside_each_other(target: Target) -> None:
    own = {"racks": 2, "workers": 1, "uplink_rate": 10, "mlfabric.shared": True, "jobs": ({}, {})}
    result = run_trial(TrialSettings(**SMALL | SETTINGS | own), 1, target, lambda message: None)
    for number, of_job in enumerate(result["metrics"]["jobs"]):
        found = updates([r for r in result["steps"] if r["job"] == number])
        assert of_job["model_digest"] and len(found) == 2 * STEPS and all(u["applied_at"] is not None for u in found)


def test_what_is_dropped_costs_no_bytes(target: Target) -> None:
    """As the network counts them on the server's link, acknowledgments of the models that it sends included."""
    own = {"mlfabric.aggregate": False, "mlfabric.delay": 1, "steps": 20}
    result = run_trial(TrialSettings(**SMALL | SETTINGS | own), 1, target, lambda message: None)
    applied = [u for u in updates(result["steps"]) if u["applied_at"] is not None]
    tensors = result["metrics"]["server_bytes"][0]["down"] / (TCP_OVERHEAD * 4 * result["metrics"]["elements"])
    assert len(applied) <= 60 and len(applied) < tensors < len(applied) + 5


def test_racks_have_one_transfer_at_a_time_too(target: Target) -> None:
    change = SETTINGS | {"racks": 2, "workers": 2, "uplink_rate": 10, "steps": 4}
    result = run_trial(TrialSettings(**SMALL | change), 1, target, lambda message: None)
    found = updates(result["steps"])
    direct = sorted((u for u in found if u["way"] == "server 0"), key=lambda u: u["sent"])
    assert all(after["sent"] >= before["applied"] for before, after in pairwise(direct))
    assert len(found) == 16 and all(u["applied_at"] is not None for u in found) and result["metrics"]["model_digest"]


@pytest.mark.parametrize(
    ("own", "at"), [({"mlfabric.distance": 0.5}, 1.5), ({"mlfabric.distance": 0.1}, 1.1), ({"mlfabric.chain": True}, 0.7)]
)
def test_workers_go_on_with_the_replica_of_a_server_that_is_killed(target: Target, own: dict[str, Any], at: float) -> None:
    heard: list[tuple[float, str]] = []

    def on_event(message: Message) -> None:
        if isinstance(message, Lost):
            heard.append((time.monotonic(), message.text))

    change = SETTINGS | own | {"steps": 40, "faults": f"die s0 at {at:g}"}
    result = run_trial(TrialSettings(**SMALL | change), 1, target, on_event)
    ((_, text),) = heard
    metrics, found = result["metrics"], updates(result["steps"])
    (death,) = fault_times(result, "die")
    assert text == "server 0 (host s0) was killed by SIGKILL" and text not in result["problems"]
    assert len(found) == 160 and all(u["applied_at"] is not None for u in found) and metrics["model_digest"]
    assert metrics["distance_max"] <= own.get("mlfabric.distance", 0.0) * (1 + 1e-9)
    direct = [u for u in found if u["way"].startswith("server")]
    assert {u["way"] for u in direct if u["sent"] < death - 0.2} <= {"server 0"}
    after = [u for u in direct if u["sent"] > death + 0.2]
    assert {u["way"] for u in after} == {"server 1"} and min(u["sent"] for u in after) < death + 5


def test_others_train_on_while_a_worker_hangs(target: Target) -> None:
    """It hangs until all others have done their last step."""
    hung: list[int] = []
    ended: set[int] = set()

    def on_event(message: Message) -> None:
        if isinstance(message, Step) and message.number == 3 and not hung:
            hung.append(called("worker1"))
            os.kill(hung[0], signal.SIGSTOP)
        elif isinstance(message, Step) and message.number == 7 and message.rank != 1:
            ended.add(message.rank)
            if len(ended) == 3:
                os.kill(hung[0], signal.SIGCONT)

    result = run_trial(TrialSettings(**SMALL | SETTINGS | {"steps": 8, "mlfabric.distance": 1.0}), 1, target, on_event)
    found = updates(result["steps"])
    assert len(found) == 32 and all(u["applied_at"] is not None for u in found) and result["metrics"]["model_digest"]
    assert result["metrics"]["distance_max"] <= 1 + 1e-9


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (signal.SIGKILL, "the scheduler beside server 0 (host s0) was killed by SIGKILL"),
        (signal.SIGSTOP, "the scheduler has not answered"),
    ],
    ids=["dies", "hangs"],
)
def test_a_scheduler_that_dies_or_hangs_ends_the_trial_by_name(target: Target, number: signal.Signals, why: str) -> None:
    """There is one, and it alone knows what is reserved on which link."""
    change = {"patience": 3, "mlfabric.distance": 1.0}
    assert why in fails(target, Step, lambda: kill(lambda: called("scheduler"), number), **SETTINGS | change)


def test_a_replica_that_dies_is_done_without(target: Target) -> None:
    killed: list[int] = []

    def on_event(message: Message) -> None:
        if isinstance(message, Step) and message.number == 3 and not killed:
            killed.append(called("server1"))
            os.kill(killed[0], signal.SIGKILL)

    result = run_trial(TrialSettings(**SMALL | SETTINGS | {"mlfabric.distance": 0.5, "steps": 20}), 1, target, on_event)
    assert "server 1 (host s1) was killed by SIGKILL" in result["problems"] and len(result["steps"]) == 80
    assert result["metrics"]["model_digest"]


@pytest.mark.parametrize("later", [{}, {"faults": "die s0 at 3"}])
def test_a_server_that_dies_unasked_makes_the_trial_not_valid(target: Target, later: dict[str, Any]) -> None:
    """Also if its death was asked for at a later time."""
    killed: list[int] = []

    def on_event(message: Message) -> None:
        if isinstance(message, Step) and message.number == 3 and not killed:
            killed.append(called("server0"))
            os.kill(killed[0], signal.SIGKILL)

    change = SETTINGS | {"mlfabric.distance": 0.5, "steps": 30} | later
    result = run_trial(TrialSettings(**SMALL | change), 1, target, on_event)
    assert not result["valid"] and "server 0 (host s0) was killed by SIGKILL" in result["problems"]
    assert result["metrics"]["model_digest"] and len(result["steps"]) == 120


def test_a_death_after_the_training_is_none(target: Target) -> None:
    with pytest.raises(
        TrialError, match="the training ended before the fault `die s0 at 60` did: let it happen earlier, or set steps"
    ):
        run_trial(
            TrialSettings(**SMALL | SETTINGS | {"mlfabric.distance": 0.5, "faults": "die s0 at 60"}),
            1,
            target,
            lambda message: None,
        )


def test_a_server_without_a_replica_cannot_be_killed_on_request() -> None:
    with pytest.raises(SettingsError, match="choose a scheme with a replica of its server"):
        TrialSettings(**SMALL | SETTINGS | {"faults": "die s0 at 1"}).check()
    with pytest.raises(SettingsError, match="chain replication leaves no distance"):
        TrialSettings(**SMALL | SETTINGS | {"mlfabric.chain": True, "mlfabric.distance": 1.0}).check()
