"""Training over any other scheme: the same as over SwitchML but for rounding."""

from __future__ import annotations

import os
import signal
import time

import pytest

from inalab.hosts.messages import Message, Step
from inalab.schemes import registry
from inalab.switches.target import Target
from inalab.testbed.plan.settings import SettingsError, TrialSettings
from inalab.testbed.theory import bounds
from inalab.testbed.trial import workers
from inalab.testbed.trial.errors import TrialError
from inalab.testbed.trial.watch import ended
from inalab.topologies.catalog import TOPOLOGIES
from tests.network.running import run_trial
from tests.network.test_trials import SMALL, trial, worker_pid

OTHERS = [
    name for name in registry.names() if name != "switchml" and registry.find(name).sums and not registry.find(name).multi_gpu
]


@pytest.mark.parametrize("scheme", OTHERS)
def test_training_over_another_scheme_learns_as_over_switchml(scheme: str, target: Target, atp_target: Target) -> None:
    own = atp_target if scheme == "atp" else target
    result, switched = trial(own, scheme=scheme, servers=2), trial(target)
    assert result["metrics"]["model_digest"]
    assert result["metrics"]["packets_sent"] > 0
    lossy = trial(own, scheme=scheme, servers=2, loss=0.02)
    assert lossy["metrics"]["retransmissions"] > 0
    assert lossy["metrics"]["model_digest"] == result["metrics"]["model_digest"]
    assert result["metrics"]["final_test_loss"] == pytest.approx(switched["metrics"]["final_test_loss"], rel=1e-3)


@pytest.mark.parametrize(
    ("scheme", "topology", "strategy"),
    [
        ("byteps-machine", "pcie-machines", "cpu-assisted"),
        ("byteps-machine", "nvlink-machines", "nvlink-reduce"),
        ("switchml-machine", "pcie-machines", "cpu-assisted"),
    ],
)
def test_machines_with_several_gpus_learn_as_well(scheme: str, topology: str, strategy: str, target: Target) -> None:
    """Links between machines lose packets, and those inside do not."""
    its = {"topology": topology, "scheme": scheme, "strategy": strategy, "workers": 4}
    plain, lossy, racks = trial(target, **its), trial(target, **its, loss=0.02), trial(target, scheme="ring", workers=4)
    assert lossy["metrics"]["model_digest"] == plain["metrics"]["model_digest"]
    assert lossy["metrics"]["loss_achieved"] > 0
    assert plain["metrics"]["final_test_loss"] == pytest.approx(racks["metrics"]["final_test_loss"], rel=1e-3)


@pytest.mark.parametrize("scheme", ["gloo", "ring", "ps"])
def test_a_worker_that_dies_ends_the_trial_by_name(scheme: str, target: Target) -> None:
    def on_event(message: Message) -> None:
        if isinstance(message, Step) and (message.number, message.rank) == (2, 1):
            os.kill(worker_pid(1), signal.SIGKILL)

    with pytest.raises(TrialError, match=r"worker 1 was killed by SIGKILL; worker \d: job 0 cannot be completed: "):
        run_trial(TrialSettings(**{**SMALL, "steps": 2000, "scheme": scheme}), 1, target, on_event)


def test_how_a_worker_died_is_told_also_when_its_parent_learns_it_last(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    died: dict[int, tuple[float, int]] = {}

    def late(pid: int) -> int | None:
        if pid not in died and (code := ended(pid)) is not None:
            died[pid] = time.monotonic() + 0.5, code
        return died[pid][1] if pid in died and time.monotonic() > died[pid][0] else None

    def on_event(message: Message) -> None:
        if isinstance(message, Step) and message.number == 2 and message.rank == 1:
            for rank in range(4):
                os.kill(worker_pid(rank), signal.SIGKILL)

    monkeypatch.setattr(workers, "ended", late)
    with pytest.raises(TrialError, match=r"^worker \d was killed by SIGKILL(; worker \d was killed by SIGKILL){3}$"):
        run_trial(TrialSettings(**{**SMALL, "steps": 2000}), 1, target, on_event)


def test_a_fixed_factor_learns_on_its_plateau_and_not_beyond(target: Target) -> None:
    exact = trial(target, measure_error=True)["metrics"]
    assert 0 < exact["error_median"] < 1e-6
    fine = trial(target, measure_error=True, scaling=1e6)["metrics"]
    assert exact["error_median"] < fine["error_median"] < 1e-3
    assert fine["final_test_loss"] == pytest.approx(exact["final_test_loss"], rel=1e-3)
    assert trial(target, measure_error=True, scaling=1e-3)["metrics"]["error_median"] == pytest.approx(1.0)  # rounds all to 0


def test_an_outage_costs_time_and_no_bit_of_the_model(target: Target) -> None:
    long = {"workload": "tensor-1000000", "steps": 2}  # so that the outage falls into a sum
    plain = trial(target, **long)["metrics"]
    cut = trial(target, **long, faults="down h0 at 0.2 for 0.1", timeline=True)
    begun, ended = (cut["metrics"]["faults"][0][name] for name in ("begun", "ended"))
    assert begun >= 0.2 and ended - begun >= 0.1
    assert cut["metrics"]["model_digest"] == plain["model_digest"]
    # it has to ask at least: if all of its packets were in the switch when the outage began, none needs to be sent again
    assert cut["metrics"]["retransmissions"] + cut["metrics"]["queries"] > 0
    noted = cut["workers"][0]["timeline"]
    inside = [results for when, _, _, results, _ in noted if begun + 0.02 < when < ended - 0.02]
    assert sum(inside) == 0 and sum(row[3] for row in noted) == cut["workers"][0]["counters"]["results"]


def test_a_racks_uplink_carries_the_tensor_once(target: Target) -> None:
    settings = TrialSettings(**{**SMALL, "workload": "tensor-100000", "steps": 4})
    sent = run_trial(settings, 1, target, lambda message: None)["metrics"]["uplink_bytes"]
    expected = settings.steps * 4 * 100_000 * bounds.framing(settings, 100_000)
    assert len(sent) == 2
    for rack in sent:
        assert rack == {"up": pytest.approx(expected, rel=0.02), "down": pytest.approx(expected, rel=0.02)}


REFUSED = {
    ("switchml", "dumbbell"): "scheme switchml needs a switch above its racks",
    ("atp", "pods"): "scheme atp adds at two levels of switches",
}


@pytest.mark.parametrize("topology", [name for name, kind in TOPOLOGIES.items() if name != "racks" and not kind.machines])
@pytest.mark.parametrize("scheme", ["switchml", "atp", "ring"])
def test_every_topology_leads_to_the_same_model_also_under_loss(
    scheme: str, topology: str, target: Target, atp_target: Target
) -> None:
    own, set_ = atp_target if scheme == "atp" else target, {"scheme": scheme, "topology": topology}
    if why := REFUSED.get((scheme, topology)):
        with pytest.raises(SettingsError, match=why):
            TrialSettings(**{**SMALL, **set_}).check()
        return
    lossy, racks = trial(own, **set_, loss=0.02), trial(own, scheme=scheme)
    assert lossy["metrics"]["retransmissions"] > 0
    assert lossy["metrics"]["model_digest"] == racks["metrics"]["model_digest"]
