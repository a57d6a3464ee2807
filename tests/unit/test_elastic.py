"""Jobs whose members change, in virtual time: every step applies the mean over its members, and all end with the same model."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from inalab.hosts.messages import Halted, Join, Lost, Order
from inalab.hosts.training.elastic import ElasticTrainer, Orders
from inalab.testbed.plan.settings import SettingsError, TrialSettings
from inalab.testbed.trial.errors import TrialError
from inalab.testbed.virtual.links import Link
from inalab.testbed.virtual.trial import VirtualTrial
from tests.replayed_training import members_of, replayed
from tests.unit.test_virtual import settings, virtual

ELASTIC: dict[str, Any] = {"elastic": True, "slots": 16, "patience": 1, "steps": 8}
SCHEMES = ["switchml", "switchml-rdma", "atp", "ring", "tree", "ps", "ps-sharded", "byteps"]


class Models:
    """The weights with which workers have ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.weights: dict[int, torch.Tensor] = {}
        digest = ElasticTrainer.digest

        def noted(trainer: ElasticTrainer) -> str:
            self.weights[trainer.rank] = trainer.replica.weights()
            return digest(trainer)

        monkeypatch.setattr(ElasticTrainer, "digest", noted)

    def trial(self, seed: int = 1, heard: list[Any] | None = None, **changes: Any) -> dict[str, Any]:
        """A trial whose last members have the replayed model, bit for bit the same."""
        self.weights.clear()
        found = virtual(seed, heard, **ELASTIC | changes)
        assert found["valid"], found["problems"]
        expected = replayed(settings(**ELASTIC | changes), seed, members_of(found["steps"])).weights()
        first, *others = (self.weights[worker["rank"]] for worker in found["workers"])
        assert all(torch.equal(first, other) for other in others)
        assert torch.allclose(first, expected, rtol=1e-4, atol=1e-6 * float(expected.abs().max()))
        return found


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Models:
    return Models(monkeypatch)


def moments(found: dict[str, Any], steps: int = 8) -> list[float]:
    """Some of a trial's duration: in sums, between them, and at the ends of steps."""
    ends = sorted({step["ended"] for step in found["steps"]})
    return [0.003, ends[1] - 1e-4, ends[1] + 1e-4, (ends[2] + ends[3]) / 2]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_job_goes_on_without_a_worker_and_with_it_again(scheme: str, models: Models) -> None:
    whole = models.trial(scheme=scheme)
    assert {tuple(step["members"]) for step in whole["steps"]} == {(0, 1, 2, 3)}
    away = 0.2 if scheme == "ps" else 0.12  # a step over one server takes longer
    for at in moments(whole):
        found = models.trial(scheme=scheme, faults=f"die h3 at {at}; restart h3 at {at + away}")
        members = members_of(found["steps"])
        assert (0, 1, 2) in members and members[-1] == (0, 1, 2, 3)
        (gone, back) = found["metrics"]["changes"]
        assert gone["members"] == (0, 1, 2) and back["members"] == (0, 1, 2, 3)
        assert all(c["noticed"] <= c["agreed"] <= c["installed"] <= c["joined"] < c["noticed"] + 1 for c in (gone, back))


def test_a_tree_that_is_planned_anew_begins_with_the_given_rates_in_every_group(models: Models) -> None:
    learning: dict[str, Any] = {"scheme": "tree", "tree.learn": True, "workload": "tensor-60000"}
    found = models.trial(**learning, faults="rate h1 5 at 0.3; die h3 at 1.5; restart h3 at 2.5")
    members = members_of(found["steps"])
    assert (0, 1, 2) in members and members[-1] == (0, 1, 2, 3)


@pytest.mark.parametrize("scheme", ["ring", "byteps"])
def test_over_rdma_too(scheme: str, models: Models) -> None:
    found = models.trial(scheme=scheme, transport="rdma", faults="die h3 at 0.1; restart h3 at 0.25")
    members = members_of(found["steps"])
    assert (0, 1, 2) in members and members[-1] == (0, 1, 2, 3)


@pytest.mark.parametrize("scheme", ["switchml", "ring", "atp"])
def test_a_worker_that_hangs_is_one_less_and_a_slow_one_is_not(scheme: str, models: Models) -> None:
    hung = models.trial(scheme=scheme, faults="hang h1 at 0.03")
    assert members_of(hung["steps"])[-1] == (0, 2, 3)
    late = models.trial(scheme=scheme, faults="slow h1 20 at 0.02 for 0.3")
    assert set(members_of(late["steps"])) == {(0, 1, 2, 3)} and not late["metrics"].get("changes")
    awake = models.trial(scheme=scheme, faults="hang h1 at 0.03 for 0.5")
    assert set(members_of(awake["steps"])) == {(0, 1, 2, 3)}


def test_a_rack_that_has_lost_all_its_workers_leaves_the_tree(models: Models) -> None:
    found = models.trial(faults="die h2 at 0.02; die h3 at 0.05; restart h2 at 0.09")
    assert [c["members"] for c in found["metrics"]["changes"]] == [(0, 1, 3), (0, 1), (0, 1, 2)]


def test_members_change_below_three_levels_of_switches(models: Models) -> None:
    pods = {"topology": "pods", "racks": 4, "workers": 2, "pods": 2}
    found = models.trial(
        **pods, faults="die h7 at 0.02; die h6 at 0.06; die h4 at 0.1; die h5 at 0.15; restart h6 at 0.2", steps=12
    )
    sizes = [len(c["members"]) for c in found["metrics"]["changes"]]
    assert sizes == [7, 6, 5, 4, 5]


def test_one_worker_may_be_left(models: Models) -> None:
    found = models.trial(faults="die h1 at 0.01; die h2 at 0.03; die h0 at 0.06; restart h0 at 0.15")
    assert (3,) in members_of(found["steps"]) and members_of(found["steps"])[-1] == (0, 3)
    with pytest.raises(TrialError, match="the job cannot go on: no member is left that has the model: worker 0 was killed"):
        virtual(**ELASTIC, faults="; ".join(f"die h{rank} at 0.03" for rank in range(4)))


def test_a_second_death_may_come_while_members_change(models: Models) -> None:
    for after in (0.0, 0.0005, 0.0012, 0.0018, 0.0025, 0.005):
        found = models.trial(faults=f"die h3 at 0.03; die h1 at {0.03 + after}; restart h3 at {0.031 + after}")
        assert members_of(found["steps"])[-1] == (0, 2, 3)


def test_a_newcomer_may_die_while_it_gets_the_model(models: Models) -> None:
    for after in (0.0005, 0.002, 0.004, 0.006, 0.01):
        found = models.trial(faults=f"die h3 at 0.03; restart h3 at 0.05; die h3 at {0.05 + after}; restart h3 at 0.1")
        assert members_of(found["steps"])[-1] == (0, 1, 2, 3)


@pytest.mark.parametrize("scheme", ["switchml", "ring"])
def test_all_may_begin_again_from_a_checkpoint(scheme: str, models: Models) -> None:
    given: dict[str, Any] = {"scheme": scheme, "steps": 12, "checkpoint": 3}
    whole = models.trial(**given)
    assert not whole["metrics"].get("changes")
    for at in moments(whole):
        for faults in (f"die h3 at {at}", f"die h0 at {at}; restart h0 at {at + 0.15}", f"die h2 at {at}; die h1 at {at + 0.0013}"):
            found = models.trial(**given, faults=faults)
            assert all(change["steps"] % 3 == 0 for change in found["metrics"]["changes"])
            assert len(found["steps"]) == len({(step["step"], step["rank"]) for step in found["steps"]})
    hung = models.trial(**given, faults="hang h1 at 0.2")
    assert members_of(hung["steps"])[-1] == (0, 1, 2, 3) and len(hung["metrics"]["changes"]) == 1  # in another process


@pytest.mark.parametrize("scheme", ["atp", "ps", "byteps"])
def test_a_server_that_dies_or_hangs_is_replaced(scheme: str, models: Models) -> None:
    whole = models.trial(scheme=scheme, servers=1)["metrics"]["model_digest"]
    for fault in ("die s0 at 0.03", "hang s0 at 0.03"):
        found = models.trial(scheme=scheme, servers=1, faults=fault)
        assert [c["members"] for c in found["metrics"]["changes"]] == [(0, 1, 2, 3)]
        assert found["metrics"]["model_digest"] == whole


@pytest.mark.parametrize("scheme", ["switchml", "atp"])
@pytest.mark.parametrize("switch", ["tor1", "root"])
def test_a_switch_that_restarts_with_nothing_costs_no_bit(scheme: str, switch: str, models: Models) -> None:
    whole = models.trial(scheme=scheme)["metrics"]["model_digest"]
    again = models.trial(scheme=scheme, faults=f"restart {switch} at 0.03 for 0.1")
    (change,) = again["metrics"]["changes"]
    assert again["metrics"]["model_digest"] == whole and change["agreed"] == pytest.approx(0.13, abs=0.01)
    around = models.trial(scheme=scheme, faults=f"restart {switch} at 0.03 for 0.1", fallback="ring")
    assert [c["scheme"] for c in around["metrics"]["changes"]] == ["ring", scheme]
    assert {"ring", scheme} == {step["scheme"] for step in around["steps"]}


@pytest.mark.parametrize("scheme", ["switchml", "ring", "ps"])
def test_workers_below_a_switch_that_dies_are_lost_and_come_back_after_it(scheme: str, models: Models) -> None:
    found = models.trial(
        scheme=scheme, faults="die tor1 at 0.03; restart h2 at 0.05; restart tor1 at 0.1; restart h3 at 0.12", steps=12
    )
    members = [c["members"] for c in found["metrics"]["changes"]]
    assert members[0] == (0, 1) and members[-1] == (0, 1, 2, 3) and not found["metrics"].get("lost")
    assert all(c["members"] == (0, 1) for c in found["metrics"]["changes"] if c["noticed"] < 0.1)  # h2 is there, and cut off


def test_without_the_root_one_part_goes_on(models: Models) -> None:
    found = models.trial(faults="die root at 0.03")
    assert [c["members"] for c in found["metrics"]["changes"]] == [(0, 1)]
    found = models.trial(faults="die h0 at 0.02; die root at 0.06")
    assert [c["members"] for c in found["metrics"]["changes"]] == [(1, 2, 3), (2, 3)]
    pods = {"topology": "pods", "racks": 4, "workers": 2, "pods": 2}
    found = models.trial(**pods, faults="die core at 0.02; die tor0 at 0.1", fallback="ring", steps=12)
    assert [c["members"] for c in found["metrics"]["changes"]] == [(0, 1, 2, 3), (2, 3)]


def test_a_switch_that_has_died_stays_dead_and_cuts_off_who_waits_to_come(models: Models) -> None:
    found = models.trial(
        faults="die h3 at 0.01; restart root at 0.03 for 0.1; restart h3 at 0.05; die tor1 at 0.09; die tor1 at 0.1"
    )
    assert [c["members"] for c in found["metrics"]["changes"]][-1] == (0, 1)
    found = models.trial(workers=1, faults="die tor0 at 0.03")  # the other one has a switch
    assert [c["members"] for c in found["metrics"]["changes"]] == [(1,)]


def test_changes_within_an_interval_of_checkpoints_are_not_in_vain(models: Models) -> None:
    hangs = "; ".join(f"hang h{rank} at {at}" for rank, at in ((1, 0.2), (2, 2), (3, 3.8)))
    found = models.trial(scheme="ring", checkpoint=40, steps=60, faults=hangs)
    assert len(found["metrics"]["changes"]) == 3


def test_a_server_that_is_cut_off_ends_the_job() -> None:
    with pytest.raises(TrialError, match="the job cannot go on: switch root has died, and server s0 is cut off"):
        virtual(**ELASTIC, scheme="ps", servers=1, faults="die h0 at 0.01; die root at 0.05")


def test_a_link_that_is_down_for_a_while_ends_nothing(models: Models) -> None:
    found = models.trial(faults="down tor1 at 0.03 for 0.3; loss h0 0.2 in step 3 for 0.1")
    assert not found["metrics"].get("changes") and len(found["metrics"]["faults"]) == 2


def test_a_management_network_that_is_cut_ends_nothing_while_data_flows(models: Models) -> None:
    whole = models.trial()
    cut = models.trial(faults="cut h1 at 0.03 for 0.2; cut h0 at 0.05 for 0.1")
    assert not cut["metrics"].get("changes") and cut["metrics"]["model_digest"] == whole["metrics"]["model_digest"]
    assert cut["metrics"]["duration"] == pytest.approx(whole["metrics"]["duration"])


def test_a_link_may_become_slower_and_faster_again(models: Models) -> None:
    whole = models.trial()["metrics"]
    slow = models.trial(faults="rate h1 2 at 0.03 for 0.3")["metrics"]
    assert slow["model_digest"] == whole["model_digest"] and slow["duration"] > whole["duration"] + 0.15


def test_faults_are_the_same_again_from_the_seed(models: Models) -> None:
    chosen: dict[str, Any] = {
        "faults": "die any worker at 0.01..0.1; restart any switch at 0.02..0.1; loss h0 0.05 at 0.01",
        "steps": 12,
    }
    first, second = models.trial(7, **chosen), models.trial(7, **chosen)
    assert first == second
    others = [models.trial(seed, **chosen)["metrics"]["faults"] for seed in (8, 9)]
    assert first["metrics"]["faults"] not in others


def test_without_faults_elastic_training_is_the_same() -> None:
    plain, elastic = virtual(**ELASTIC | {"elastic": False}), virtual(**ELASTIC)
    assert plain["metrics"]["model_digest"] == elastic["metrics"]["model_digest"]


@pytest.mark.parametrize(
    "faults", ["die h3 at 0.03; restart h3 at 0.03", "die h3 at 0.03; restart h3 at 0.0302", "restart h3 at 0.03"]
)
def test_a_worker_may_begin_again_at_once(faults: str, models: Models) -> None:
    found = models.trial(faults=faults)
    assert members_of(found["steps"])[-1] == (0, 1, 2, 3) and found["metrics"]["changes"][-1]["members"] == (0, 1, 2, 3)


def test_a_fault_in_the_first_step_is_not_before_it(models: Models) -> None:
    found = models.trial(faults="die h3 in step 1")
    assert found["metrics"]["faults"][0]["begun"] == 0.0 and set(members_of(found["steps"])) == {(0, 1, 2)}
    assert min(step["begun"] for step in found["steps"]) > 0


def test_a_worker_that_hangs_at_the_very_end_does_not_hold_up_the_others(models: Models) -> None:
    end = max(step["ended"] for step in models.trial()["steps"])
    for before in (0.0005, 0.001, 0.002):
        found = models.trial(faults=f"hang h2 at {end - before}")
        assert {worker["rank"] for worker in found["workers"]} <= {0, 1, 2, 3} and len(found["workers"]) >= 3


def test_a_link_stays_down_when_its_switch_restarts(models: Models) -> None:
    found = models.trial(faults="down h0 at 0.03 for 0.3; restart tor0 at 0.05", patience=2)
    assert min(step["ended"] for step in found["steps"] if step["ended"] > 0.06) > 0.33


def test_whoever_survives_says_why_and_who_was_lost() -> None:
    heard: list[Any] = []
    virtual(1, heard, **ELASTIC, faults="die h2 at 0.03")
    assert [message.text for message in heard if isinstance(message, Lost)] == ["worker 2 was killed by SIGKILL"]
    halted = [message for message in heard if isinstance(message, Halted)]
    assert {message.rank for message in halted} == {0, 1, 3} and len(halted) == 3


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"faults": "die h3 at 1"}, "fault `die h3 at 1` ends the job: set elastic=yes"),
        ({"faults": "restart h3 at 1"}, "fault `restart h3 at 1` ends the job: set elastic=yes, so that it goes on meanwhile"),
        ({"elastic": True, "pipeline": "barrier"}, "elastic has no pipeline barrier: set pipeline=blocking"),
        ({"elastic": True, "measure_error": True}, "elastic has no measure_error"),
        (
            {"elastic": True, "scheme": "mlfabric", "pipeline": "asynchronous"},
            "the members of a job of scheme mlfabric do not change",
        ),
        ({"elastic": True, "slots": 2048}, "slots is 2048: a change of members needs memory for two jobs"),
        ({"elastic": True, "fallback": "gloo"}, "fallback is gloo: choose a scheme that needs neither switches nor servers"),
        ({"elastic": True, "fallback": "atp"}, "fallback is atp: choose a scheme that needs neither switches nor servers"),
        ({"elastic": True, "scheme": "ring", "fallback": "tree"}, "scheme ring needs no switch: leave fallback out"),
        ({"faults": "die s0 at 1"}, "s0 is not one of h0, h1, h2, h3"),
        ({"faults": "die h9 at 1", "elastic": True}, "h9 is not one of h0, h1, h2, h3"),
    ],
)
def test_what_cannot_be_is_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        settings(**changes).check()


def test_halving_doubling_does_not_go_on_with_three() -> None:
    with pytest.raises(TrialError, match="cannot go on with workers 0, 1, 2: halving-doubling needs a power of two"):
        virtual(**ELASTIC, scheme="halving-doubling", faults="die h3 at 0.03")


class Killing:
    """Kills a worker when the frame of this number is sent, of those since the training's start. Then `deaf` receives nothing for
    so many seconds."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, rank: int, number: int, deaf: int | None = None, seconds: float = 0.05
    ) -> None:
        self.rank, self.number, self.deaf, self.seconds = rank, number, deaf, seconds
        self.sent, self.killed = 0, float("inf")
        self.healed: list[Join] = []  # orders to take a sum from another one
        begun, put, take = VirtualTrial.run, Link.put, Orders.take

        def run(trial: VirtualTrial) -> dict[str, Any]:
            self.trial = trial
            return begun(trial)

        def counted(link: Link, frame: bytes) -> float:
            return 0.0 if self._counted(link) else put(link, frame)

        def noted(orders: Orders, order: Order) -> None:
            self.healed += [order] if isinstance(order, Join) and order.behind else []
            take(orders, order)

        monkeypatch.setattr(VirtualTrial, "run", run)
        monkeypatch.setattr(Link, "put", counted)
        monkeypatch.setattr(Orders, "take", noted)

    def _counted(self, link: Link) -> bool:
        """Whether it is lost."""
        trial, now = self.trial, self.trial.time.now
        if now > trial.started:
            self.sent += 1
            if self.sent == self.number:
                self.killed = now
                trial.time.after(0.0, trial.kill, f"h{self.rank}")
        (down,) = trial.plan.links_above([f"h{self.deaf}"]) if self.deaf is not None else [None]
        return (
            down is not None and link is trial.network.links[down.number, False] and self.killed <= now < self.killed + self.seconds
        )


THREE: dict[str, Any] = {
    "jobs": '[{"workers": [2, 1]}]', "workload": "tensor-130", "steps": 2, "slots": 2, "compute_ms": 2, "evaluate_every": 2,
}  # fmt: skip


def test_a_death_between_any_two_packets_of_two_steps(models: Models) -> None:
    """Three workers below two levels of switches: whoever dies, and whenever, the survivors apply the same steps."""
    with pytest.MonkeyPatch.context() as patch:
        whole = Killing(patch, 0, -1)
        models.trial(**THREE)
    complete = set()
    for rank, number in itertools.product(range(3), range(1, whole.sent + 1)):
        with pytest.MonkeyPatch.context() as patch:
            Killing(patch, rank, number)
            found = models.trial(**THREE)
        members = members_of(found["steps"])
        survivors = tuple(sorted({0, 1, 2} - {rank}))
        assert len(members) == 2 and set(members) <= {(0, 1, 2), survivors}, (rank, number)
        complete.add(members.count((0, 1, 2)))
    assert complete == {0, 1, 2}


@pytest.mark.parametrize("scheme", ["switchml", "ring"])
def test_a_sum_that_some_have_and_some_lack_is_taken_from_those_who_have_it(scheme: str, models: Models) -> None:
    """Worker 2 dies, and what has left for worker 0 does not come."""
    chosen = THREE | {"scheme": scheme, "faults": "loss h1 0 at 0"}  # a fault excuses what TCP sends again
    with pytest.MonkeyPatch.context() as patch:
        whole = Killing(patch, 2, -1)
        models.trial(**chosen)
    healed = []
    for number in range(1, whole.sent + 1, 3):
        with pytest.MonkeyPatch.context() as patch:
            killing = Killing(patch, 2, number, deaf=0)
            found = models.trial(**chosen)
        assert set(members_of(found["steps"])) <= {(0, 1, 2), (0, 1)}, number
        healed += killing.healed
    assert {order.steps for order in healed} == {1, 2}
    assert {(order.source, order.behind) for order in healed} >= {(1, (0,))}


def test_settings_of_earlier_records_are_faults() -> None:
    old = TrialSettings(**{"outage_at": 0.5, "outage_ms": 50.0, "death_at": None})
    assert [str(fault) for fault in old.faults] == ["down h0 at 0.5 for 0.05"]
    assert [str(f) for f in TrialSettings(outage_at=None, outage_ms=50.0, death_at=3.0).faults] == ["die s0 at 3"]
    assert not TrialSettings(**{"outage_at": None, "outage_ms": 50.0, "death_at": None}).faults
