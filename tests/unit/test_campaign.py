"""Campaigns without a network: what a trial is, results that are kept once, and who runs what."""

from __future__ import annotations

import json
import multiprocessing
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from testbed.campaign import campaign as campaigns
from testbed.campaign import file, one
from testbed.campaign.campaign import Campaign, Planned, read_status
from testbed.campaign.identity import identity
from testbed.campaign.machines import Ended, Gone
from testbed.campaign.schedule import MOST_LOST, Schedule, Work
from testbed.campaign.store import Store
from testbed.plan import experiment
from testbed.plan.asking import Asked, understood
from testbed.plan.experiment import Trial
from testbed.plan.settings import SettingsError, TrialSettings, make_settings
from testbed.record.runs import ResultsError
from topologies import isolation

FINGERPRINT = {"processor": "made up", "kernel": "6.1", "cores": 2, "one_core": 1, "all_cores": 2}


def trial(name: str = "one", seed: int = 1, **settings: Any) -> Trial:
    return Trial(name, {"name": name}, make_settings(TrialSettings, settings), seed)


# --- identity


def test_a_trial_is_its_settings_seed_target_and_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = identity(trial(), "embedded")
    assert first == identity(trial("another name"), "embedded") and len(first) == 64
    others = [
        identity(trial(seed=2), "embedded"),
        identity(trial(), "bmv2"),
        identity(trial(loss=0.01), "embedded"),
        identity(trial(scheme="atp", aggregators=64), "embedded"),
        identity(trial(scheme="atp"), "embedded"),
    ]
    monkeypatch.setattr("testbed.campaign.identity.code", lambda: "other code")
    others.append(identity(trial(), "embedded"))
    assert len({first, *others}) == len(others) + 1


def test_what_is_said_by_default_is_the_same_trial() -> None:
    assert identity(trial(slots=64, workers=4), "embedded") == identity(trial(), "embedded")


@pytest.mark.parametrize("name", experiment.names())
def test_every_experiments_trials_survive_the_journey_to_another_machine(name: str) -> None:
    _, chosen, settings = understood(Asked(name, "embedded", 1, [], quick=True), strict=False)
    for planned in chosen.trials(settings, 1):
        told = json.loads(json.dumps(one.described(planned, "embedded")))
        there = make_settings(TrialSettings, told["settings"])
        arrived = Trial(planned.name, {}, there, told["seed"])
        assert identity(arrived, told["target"]) == identity(planned, "embedded")


# --- the store


def _commit(folder: str, number: int) -> None:
    for n in range(20):
        Store(Path(folder)).commit(f"trial{n}", {"by": number, "long": "x" * 100_000})


def test_whoever_commits_together_leaves_one_whole_result(tmp_path: Path) -> None:
    processes = [multiprocessing.get_context("fork").Process(target=_commit, args=(str(tmp_path), n)) for n in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"trial{n}.json" for n in range(20))
    assert all(len(Store(tmp_path).read(f"trial{n}")["long"]) == 100_000 for n in range(20))


def test_a_result_that_is_there_stays(tmp_path: Path) -> None:
    store = Store(tmp_path / "trials")
    assert store.commit("a", {"n": 1}) and not store.commit("a", {"n": 2})
    assert store.read("a") == {"n": 1}


def test_a_result_is_there_whole_or_not_at_all_when_its_writer_is_killed(tmp_path: Path) -> None:
    code = f"""
import os
from pathlib import Path
from testbed.campaign.store import Store
os.link = lambda *given: os.kill(os.getpid(), 9)
Store(Path({str(tmp_path)!r})).commit("a", {{"n": 1}})
"""
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -9
    assert not Store(tmp_path).has("a")
    assert Store(tmp_path).commit("a", {"n": 2}) and Store(tmp_path).read("a") == {"n": 2}


def test_a_full_disk_is_told_and_leaves_nothing_in_part(tmp_path: Path) -> None:
    def work() -> int:
        isolation.mount("tmpfs", str(tmp_path), "tmpfs", 0, "size=64k")
        store = Store(tmp_path)
        store.commit("small", {"n": 1})
        with pytest.raises(ResultsError, match=r"large\.json cannot be written: No space left on device"):
            store.commit("large", {"n": "x" * 200_000})
        assert [path.name for path in tmp_path.iterdir()] == ["small.json"]
        assert store.commit("large", {"n": "x" * 1000})
        return 0

    assert isolation.isolated(work) == 0


def test_a_damaged_result_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(ResultsError, match="delete it, and its trial runs again"):
        Store(tmp_path).read("a")


# --- the schedule


def blocks(*sizes: int) -> list[list[Work]]:
    return [[Work(f"{b}.{n}", f"{b}.{n}", b) for n in range(size)] for b, size in enumerate(sizes)]


def test_a_block_is_one_slots_and_its_order_rotates() -> None:
    schedule, ran = Schedule(blocks(3, 3, 3)), {}
    while schedule.left:
        for slot in ("a", "b"):
            if (work := schedule.next_for(slot)) is not None:
                ran.setdefault(slot, []).append(work.identity)
                schedule.ended(slot)
    assert ran == {"a": ["0.0", "0.1", "0.2", "2.2", "2.0", "2.1"], "b": ["1.1", "1.2", "1.0"]}


def test_what_a_lost_slot_had_runs_elsewhere_first() -> None:
    schedule = Schedule(blocks(3, 2))
    assert schedule.next_for("a") == Work("0.0", "0.0", 0)
    schedule.ended("a")
    assert schedule.next_for("a") == Work("0.1", "0.1", 0)
    assert schedule.gone("a") is None and schedule.gone("never there") is None
    order = []
    while (work := schedule.next_for("b")) is not None:
        schedule.ended("b")
        order.append(work.identity)
    assert order == ["0.1", "0.2", "1.1", "1.0"] and schedule.left == 0


def test_a_trial_that_takes_every_slot_with_it_is_given_up() -> None:
    schedule = Schedule(blocks(2))
    for n in range(MOST_LOST):
        assert schedule.next_for(f"slot {n}") == Work("0.0", "0.0", 0)
        given_up = schedule.gone(f"slot {n}")
    assert given_up == Work("0.0", "0.0", 0)
    assert schedule.next_for("another") == Work("0.1", "0.1", 0)


def test_whatever_happens_every_trial_ends_once() -> None:
    draw = random.Random(1)
    for _ in range(200):
        sizes = [draw.randrange(0, 5) for _ in range(draw.randrange(1, 6))]
        schedule, ended, given_up = Schedule(blocks(*sizes)), Counter[str](), Counter[str]()
        while schedule.left:
            slot = f"slot {draw.randrange(4)}"
            if slot in schedule.running:
                if draw.random() < 0.3:
                    work = schedule.gone(slot)
                    given_up.update([work.identity] if work else [])
                else:
                    ended[schedule.ended(slot).identity] += 1
            else:
                schedule.next_for(slot)
        assert sum(sizes) == len(ended) + len(given_up) and set((ended + given_up).values()) <= {1}


# --- a campaign, on machines that are made up


class MadeUp:
    """Slots that run nothing: each trial ends at once, with a result that says where; some are lost."""

    def __init__(self, names: list[str], lose: dict[str, int] | None = None, fail: str = "") -> None:
        self.names, self.lose, self.fail = names, lose or {}, fail
        self.under_way: dict[str, dict[str, Any]] = {}
        self.ran: list[tuple[str, int]] = []  # slot and seed
        self.stopped = False

    def slots(self) -> dict[str, dict[str, Any]]:
        return {name: FINGERPRINT | {"cores": n + 1} for n, name in enumerate(self.names)}

    def start(self, slot: str, asked: dict[str, Any]) -> None:
        assert slot not in self.under_way
        self.under_way[slot] = asked

    def news(self, seconds: float) -> list[Ended | Gone]:
        found: list[Ended | Gone] = []
        for slot, asked in list(self.under_way.items()):
            del self.under_way[slot]
            if self.lose.get(slot, -1) == len([s for s, _ in self.ran if s == slot]):
                self.names.remove(slot)
                found.append(Gone(slot))
                continue
            self.ran.append((slot, asked["seed"]))
            failed = self.fail and asked["settings"]["loss"] == 0.5
            result = {"failed": self.fail} if failed else {"metrics": {"duration": 1 / 3}, "valid": True, "problems": []}
            found.append(Ended(slot, result))
        return found

    def stop(self) -> None:
        self.stopped = True


def planned(seeds: int = 3, losses: tuple[float, ...] = (0.0, 0.1, 0.2, 0.5)) -> Planned:
    trials = [trial(f"loss {loss}", seed, loss=loss) for seed in range(1, 1 + seeds) for loss in losses]
    return Planned("made up", "embedded", [(identity(t, "embedded"), t) for t in trials])


def test_each_seeds_trials_run_on_one_machine_and_all_are_there_once(tmp_path: Path) -> None:
    run, machines = planned(), MadeUp(["a", "b"])
    campaign = Campaign(tmp_path, [run, run])  # the same trials in two runs are run once
    campaign.conduct(machines, lambda text: None)
    assert len(machines.ran) == 12 and machines.stopped
    assert all(len({slot for slot, s in machines.ran if s == seed}) == 1 for seed in (1, 2, 3))
    found = campaign.results(run)
    assert [t.name for t, _ in found] == [t.name for _, t in run.trials]
    assert all(result["metrics"] == {"duration": 0.333333333} for _, result in found)
    kinds = campaign.machines(run)
    assert sorted((kind["cores"], kind["trials"]) for kind in kinds) == [(1, 8), (2, 4)]
    again = MadeUp(["a"])
    Campaign(tmp_path, [run]).conduct(again, lambda text: None)
    assert again.ran == []


def test_a_machine_that_is_lost_costs_no_result(tmp_path: Path) -> None:
    run, said = planned(), list[str]()
    campaign = Campaign(tmp_path, [run])
    campaign.conduct(MadeUp(["a", "b"], lose={"a": 2}), said.append)
    assert campaign.status.done == 12
    assert any("a is gone, and made up: loss" in text for text in said)


def test_a_trial_that_fails_is_told_and_tried_again_next_time(tmp_path: Path) -> None:
    run, said = planned(), list[str]()
    campaign = Campaign(tmp_path, [run])
    campaign.conduct(MadeUp(["a"], fail="it did not start"), said.append)
    assert campaign.status.done == 9 and len(campaign.status.failed) == 3
    assert "made up: loss 0.5 (seed 1) failed: it did not start" in said
    again = MadeUp(["a"])
    Campaign(tmp_path, [run]).conduct(again, said.append)
    assert len(again.ran) == 3


def test_the_status_is_told_also_by_another_process(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="there is no campaign"):
        read_status(tmp_path)
    campaign = Campaign(tmp_path, [planned()])
    campaign.claim()
    campaign.conduct(MadeUp(["a"]), lambda text: None)
    status, running = read_status(tmp_path)
    assert (status.done, status.trials, running) == (12, 12, True)
    with pytest.raises(ResultsError, match="another process runs the campaign"):
        Campaign(tmp_path, [planned()]).claim()
    campaign.release()
    assert not read_status(tmp_path)[1]


def test_no_room_ends_a_campaign_and_what_is_there_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign, machines = Campaign(tmp_path, [planned()]), MadeUp(["a"])
    real = Store.commit

    def full(self: Store, number: str, result: dict[str, Any]) -> bool:
        if len(list(self.folder.iterdir())) == 5:
            raise ResultsError("no room")
        return real(self, number, result)

    monkeypatch.setattr(campaigns.Store, "commit", full)
    with pytest.raises(ResultsError, match="no room"):
        campaign.conduct(machines, lambda text: None)
    assert machines.stopped and len(list((tmp_path / "trials").iterdir())) == 5
    monkeypatch.undo()
    Campaign(tmp_path, [planned()]).conduct(MadeUp(["a"]), lambda text: None)
    assert len(list((tmp_path / "trials").iterdir())) == 12


# --- its file, and one trial in a process of its own


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "run: field required"),
        ("run = []", "run: tuple should have at least 1 item"),
        ("[[run]]\nseed = 1", "run.1.experiment: field required"),
        ("[[run]]\nexperiment = 'workers'\nseeds = 3", "run.1.seeds: extra inputs are not permitted"),
        ("[[run]", "is no campaign"),
        ("[[run]]\nexperiment = 'workers'\nseed = -1", "run.1.seed: input should be greater"),
    ],
)
def test_a_file_that_is_no_campaign_is_refused(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(SettingsError, match=told):
        file.read(tmp_path / "c.toml")


def ran(asked: dict[str, Any], stop: one.Stop) -> dict[str, Any]:
    runner = one.Runner()
    try:
        return runner.run(asked, stop)
    finally:
        runner.end()


def test_a_trials_process_that_dies_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert ran({}, lambda: False) == {"failed": "its process ended with exit code 1"}


def test_a_trial_that_cannot_be_is_told() -> None:
    asked = one.described(trial(), "embedded")
    assert "target nix is unknown" in ran(asked | {"target": "nix"}, lambda: False)["failed"]


def test_a_trial_ends_when_it_is_told_to() -> None:
    asked = one.described(trial(steps=100_000, workers=1, racks=1), "embedded")
    looks = iter(range(1000))
    assert ran(asked, lambda: next(looks) > 20) == {"stopped": True}
