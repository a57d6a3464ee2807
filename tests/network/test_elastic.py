"""Jobs whose members change, on real networks: processes are killed at any moment, and training goes on."""

from __future__ import annotations

import itertools
import os
import random
import signal
from typing import Any

import pytest

from inalab.hosts.messages import Message, Step
from inalab.switches.target import Target
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.trial.errors import TrialError
from tests.network.running import run_trial
from tests.network.test_trials import worker_pid
from tests.replayed_training import members_of, replayed

ELASTIC: dict[str, Any] = {
    "workload": "digits-mlp", "racks": 2, "workers": 2, "steps": 16, "compute_ms": 30, "slots": 16, "patience": 4, "elastic": True,
}  # fmt: skip


def trained(target: Target, seed: int = 1, **changes: Any) -> dict[str, Any]:
    """The result of a trial whose model is the replayed one, the same on all members."""
    settings = TrialSettings(**ELASTIC | changes)
    settings.check()
    result = run_trial(settings, seed, target, lambda message: None)
    metrics = result["metrics"]
    replica = replayed(settings, seed, members_of(result["steps"]))
    assert metrics["model_digest"]
    assert metrics["final_test_loss"] == pytest.approx(replica.evaluate()["test_loss"], rel=1e-4)
    assert not {"sum", "models", "died"} & set(result.get("reasons", ())), result["problems"]
    return result


def sets(result: dict[str, Any]) -> list[tuple[int, ...]]:
    """The members after each change, if they are others than before."""
    return [members for members, _ in itertools.groupby(change["members"] for change in result["metrics"].get("changes", ()))]


def test_a_worker_that_is_killed_and_begins_again(target: Target) -> None:
    result = trained(target, faults="die h3 at 0.4; restart h3 at 0.9")
    gone, back = result["metrics"]["changes"]
    assert gone["members"] == (0, 1, 2) and back["members"] == (0, 1, 2, 3) and members_of(result["steps"])[-1] == (0, 1, 2, 3)
    assert {worker["rank"] for worker in result["workers"]} == {0, 1, 2, 3}


@pytest.mark.parametrize("scheme", ["gloo", "switchml"])
def test_all_begin_again_from_a_checkpoint(scheme: str, target: Target) -> None:
    faults = "die h0 in step 6; restart h0 in step 12"
    result = trained(target, scheme=scheme, checkpoint=4, faults=faults, steps=40, patience=20)
    assert sets(result) == [(1, 2, 3), (0, 1, 2, 3)]
    changes = result["metrics"]["changes"]
    assert all(change["steps"] % 4 == 0 for change in changes) and changes[-1]["steps"] >= 8


def test_gloo_goes_on_where_it_is(target: Target) -> None:
    result = trained(target, scheme="gloo", faults="die h0 in step 6; restart h0 in step 12", steps=40, patience=20)
    assert sets(result) == [(1, 2, 3), (0, 1, 2, 3)]


def test_a_worker_that_hangs_is_told_from_one_that_is_slow(target: Target) -> None:
    hung = trained(target, faults="hang h1 at 0.3", patience=1)
    assert members_of(hung["steps"])[-1] == (0, 2, 3)
    slow = trained(target, faults="slow h1 15 in step 4 for 1", steps=8)
    assert set(members_of(slow["steps"])) == {(0, 1, 2, 3)} and "changes" not in slow["metrics"]


def test_a_switch_that_restarts_costs_no_bit(target: Target) -> None:
    plain = trained(target)["metrics"]["model_digest"]
    again = trained(target, faults="restart root at 0.3; restart tor0 at 0.7 for 0.3")
    assert again["metrics"]["model_digest"] == plain and len(again["metrics"]["changes"]) == 2
    around = trained(target, faults="restart tor0 at 0.3 for 0.6", fallback="ring")
    assert [change["scheme"] for change in around["metrics"]["changes"]] == ["ring", "switchml"]


def test_workers_below_a_switch_that_dies_are_lost_and_may_come_after_it(target: Target) -> None:
    result = trained(target, faults="die tor1 in step 4; restart tor1 in step 10; restart h3 in step 12", steps=40)
    assert sets(result) == [(0, 1), (0, 1, 3)]


def test_a_cut_management_network_and_a_slow_link_end_nothing(target: Target) -> None:
    plain = trained(target)["metrics"]
    cut = trained(target, faults="cut h1 at 0.2 for 8; rate h2 3 at 0.3 for 0.5", steps=100)
    assert "changes" not in cut["metrics"] and cut["metrics"]["duration"] > 8
    slow = trained(target, faults="rate tor1 3 at 0.1 for 1")["metrics"]
    assert slow["model_digest"] == plain["model_digest"] and [fault["what"] for fault in slow["faults"]] == ["rate"]


def test_a_server_that_is_killed_is_replaced(target: Target) -> None:
    plain = trained(target, scheme="ps", steps=6)["metrics"]["model_digest"]
    assert trained(target, scheme="ps", steps=6, faults="die s0 at 0.5")["metrics"]["model_digest"] == plain


def test_a_death_that_was_not_asked_for_makes_the_trial_not_valid(target: Target) -> None:
    killed: list[int] = []

    def on_event(message: Message) -> None:
        if isinstance(message, Step) and message.number == 3 and not killed:
            killed.append(worker_pid(2))
            os.kill(killed[0], signal.SIGKILL)

    result = run_trial(TrialSettings(**ELASTIC), 1, target, on_event)
    assert not result["valid"] and "worker 2 was killed by SIGKILL" in result["problems"]
    assert members_of(result["steps"])[-1] == (0, 1, 3) and result["metrics"]["model_digest"]


def test_nobody_is_left_to_go_on(target: Target) -> None:
    with pytest.raises(TrialError, match="the job cannot go on: no member is left that has the model"):
        trained(target, faults="; ".join(f"die h{rank} at 0.3" for rank in range(4)))


@pytest.mark.parametrize("number", range(100))
def test_any_process_may_be_killed_at_any_moment(number: int, target: Target, atp_target: Target) -> None:
    """A worker, a server or a switch; half of the workers come again."""
    draw = random.Random(number)
    scheme = draw.choice(["switchml", "switchml", "atp", "ring", "ps", "byteps"])
    servers = {"atp": 1, "ps": 1, "byteps": 1}.get(scheme, 0)
    at = draw.uniform(0.01, 0.9)
    whom = draw.choice(["worker", "worker", "switch", "server" if servers else "worker"])
    faults = f"die any {whom} at {at:.3f}"
    if whom == "switch" and (servers or number % 3):  # a switch that dies may cut the server off, which ends the job
        faults = f"restart any switch at {at:.3f}"
    if whom == "worker":
        node = f"h{draw.randrange(4)}"
        faults = f"die {node} at {at:.3f}" + (f"; restart {node} at {at + draw.uniform(0, 0.5):.3f}" if number % 2 else "")
    changes = {"scheme": scheme, "faults": faults} | ({"servers": servers} if servers else {})
    result = trained(atp_target if scheme == "atp" else target, number, **changes)
    for change in result["metrics"].get("changes", ()):
        assert change["noticed"] <= change["agreed"] <= change["installed"]
