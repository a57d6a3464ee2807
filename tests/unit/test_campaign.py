"""Campaigns without a network: who runs what, on machines that are made up, and what is reported."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from inalab.testbed.campaign import campaign as campaigns
from inalab.testbed.campaign.campaign import Campaign, Planned, read_status
from inalab.testbed.campaign.file import RunWords
from inalab.testbed.campaign.identity import identity
from inalab.testbed.campaign.machines import Ended, Event, Gone, Task
from inalab.testbed.campaign.schedule import MOST_LOST, Schedule, Work
from inalab.testbed.campaign.store import Store
from inalab.testbed.command import campaigner, runner
from inalab.testbed.record.runs import ResultsError, Run, load_run, release
from tests.runs import failed, make_run, record
from tests.runs import trial as measured
from tests.unit.test_campaign_trials import FINGERPRINT, trial

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
    """Slots that run nothing: each trial ends at once, with a result that says where; some are lost, some losses are not valid."""

    def __init__(
        self, names: list[str], lose: dict[str, int] | None = None, fail: str = "", invalid: tuple[float, ...] = ()
    ) -> None:
        self.names, self.lose, self.fail, self.invalid = names, lose or {}, fail, invalid
        self.under_way: dict[str, Task] = {}
        self.ran: list[tuple[str, int]] = []  # slot and seed
        self.stopped = False

    def slots(self) -> list[str]:
        return list(self.names)

    def fingerprint(self, slot: str) -> dict[str, Any]:
        return FINGERPRINT | {"cores": self.names.index(slot) + 1}

    def start(self, slot: str, task: Task) -> None:
        assert slot not in self.under_way
        self.under_way[slot] = task

    def news(self, seconds: float) -> list[Event]:
        found: list[Event] = []
        for slot, task in list(self.under_way.items()):
            del self.under_way[slot]
            if self.lose.get(slot, -1) == len([s for s, _ in self.ran if s == slot]):
                self.names.remove(slot)
                found.append(Gone(slot))
                continue
            self.ran.append((slot, task.trial.seed))
            loss = task.trial.settings.loss
            if self.fail and loss == 0.5:
                found.append(Ended(slot, failure=self.fail))
                continue
            valid = loss not in self.invalid
            problems = [] if valid else ["the machine was busy"]
            found.append(Ended(slot, {"metrics": {"duration": 1 / 3}, "valid": valid, "problems": problems}))
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


def test_what_is_compared_is_a_block_and_no_two_runs_share_one(tmp_path: Path) -> None:
    run, other = planned(2, (0.0, 0.1)), planned(2, (0.1, 0.2, 0.5))
    Store(tmp_path / "trials").commit(run.trials[1][0], {})
    campaign = Campaign(tmp_path, [run, other])
    names = [[work.name for work in block] for block in campaign.blocks()]
    assert names == [
        ["made up: loss 0.0 (seed 1)"],
        ["made up: loss 0.0 (seed 2)", "made up: loss 0.1 (seed 2)"],
        ["made up: loss 0.2 (seed 1)", "made up: loss 0.5 (seed 1)"],
        ["made up: loss 0.2 (seed 2)", "made up: loss 0.5 (seed 2)"],
    ]
    assert campaign.status.trials == 8 and Campaign(tmp_path, [run, other]).status.done == 1


def test_slots_share_the_time_that_is_left(tmp_path: Path) -> None:
    """Five trials are left on two slots, at 30 s on average."""
    campaign = Campaign(tmp_path, [])
    campaign.show(Schedule(blocks(5)), 2)
    assert read_status(tmp_path)[0].left is None  # none has ended
    campaign.took = [10.0, 50.0]
    campaign.show(Schedule(blocks(5)), 2)
    assert read_status(tmp_path)[0].left == 75.0


def test_a_machine_that_is_lost_costs_no_result(tmp_path: Path) -> None:
    run, sentences = planned(), list[str]()
    campaign = Campaign(tmp_path, [run])
    campaign.conduct(MadeUp(["a", "b"], lose={"a": 2}), sentences.append)
    assert campaign.status.done == 12
    assert any("a is gone, and made up: loss" in text for text in sentences)


def test_a_trial_that_fails_is_told_and_tried_again_next_time(tmp_path: Path) -> None:
    run, sentences = planned(), list[str]()
    campaign = Campaign(tmp_path, [run])
    campaign.conduct(MadeUp(["a"], fail="it did not start"), sentences.append)
    assert campaign.status.done == 9 and len(campaign.status.failed) == 3
    assert "made up: loss 0.5 (seed 1) failed: it did not start" in sentences
    again = MadeUp(["a"])
    Campaign(tmp_path, [run]).conduct(again, sentences.append)
    assert len(again.ran) == 3


def test_trials_that_are_not_valid_run_again_when_that_is_asked_for(tmp_path: Path) -> None:
    run = planned()

    def conduct(machines: MadeUp, again: bool) -> Campaign:
        campaign = Campaign(tmp_path, [run], again)
        campaign.conduct(machines, lambda text: None)
        assert campaign.status.done == 12
        return campaign

    assert conduct(MadeUp(["a"], invalid=(0.1, 0.5)), again=False).invalid() == 6
    ran = []
    for again, invalid, left in ((False, (), 6), (True, (0.5,), 3), (True, (), 0), (True, (), 0)):
        machines = MadeUp(["a"], invalid=invalid)
        campaign = conduct(machines, again)
        assert campaign.invalid() == left
        ran.append(len(machines.ran))
    assert ran == [0, 6, 3, 0]
    assert {(t.settings.loss, result["tries"]) for t, result in campaign.results(run)} == {(0.0, 1), (0.1, 2), (0.2, 1), (0.5, 3)}


def test_what_is_sent_is_what_was_planned_also_where_files_have_changed_since(tmp_path: Path) -> None:
    run = planned(1)
    run.foreign = {number: {"mine.py": "as planned"} for number, _ in run.trials}
    sent: list[Any] = []
    machines = MadeUp(["a"])
    start = machines.start
    machines.start = lambda slot, task: (sent.append(task.foreign), start(slot, task))[1]  # type: ignore[method-assign]
    Campaign(tmp_path, [run]).conduct(machines, lambda text: None)
    assert sent == [{"mine.py": "as planned"}] * 4


def test_a_trial_that_fails_when_it_runs_again_keeps_its_result(tmp_path: Path) -> None:
    run = planned(1)
    Campaign(tmp_path, [run]).conduct(MadeUp(["a"], invalid=(0.5,)), lambda text: None)
    campaign = Campaign(tmp_path, [run], again=True)
    campaign.conduct(MadeUp(["a"], fail="it did not start"), lambda text: None)
    assert campaign.status.failed and campaign.invalid() == 1 and len(campaign.results(run)) == 4


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

    def full(self: Store, number: str, result: dict[str, Any], replacing: bool = False) -> bool:
        if len(list(self.folder.iterdir())) == 5:
            raise ResultsError("no room")
        return real(self, number, result, replacing)

    monkeypatch.setattr(campaigns.Store, "commit", full)
    with pytest.raises(ResultsError, match="no room"):
        campaign.conduct(machines, lambda text: None)
    assert machines.stopped and len(list((tmp_path / "trials").iterdir())) == 5
    monkeypatch.undo()
    Campaign(tmp_path, [planned()]).conduct(MadeUp(["a"]), lambda text: None)
    assert len(list((tmp_path / "trials").iterdir())) == 12


# --- its reports, and what a run goes on with


def test_each_run_of_a_campaign_has_a_folder_which_the_next_report_writes_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines, concluded = list[MadeUp](), list[Run]()

    def made_up(*_: Any) -> MadeUp:
        machines.append(MadeUp(["a"]))
        return machines[-1]

    def conclude(run: Run, *_: Any) -> bool:
        concluded.append(run)
        return True

    monkeypatch.setattr(campaigner, "_machines", made_up)
    monkeypatch.setattr(campaigner, "conclude", conclude)
    words = [RunWords(experiment="quickstart", target="simulated", seed=s, set=("racks=1", "workers=2")) for s in (1, 2)]
    for _ in range(2):
        assert campaigner.conduct("many", words, None, tmp_path, Console(quiet=True)) == 0
    assert [len(each.ran) for each in machines] == [10]  # the second time everything is there
    first, second, *again = [run.folder.resolve() for run in concluded]
    assert first != second and again == [first, second]
    for folder, seed in ((first, 1), (second, 2)):
        run = load_run(folder)
        assert [t["name"] for t in run.trials] == run.record["trials"] and {t["seed"] for t in run.trials} == {seed}
        assert run.record["seed"] == seed and run.record["finished"] is True
        assert [kind["trials"] for kind in run.record["machines"]] == [5]


def asked_for(**change: Any) -> dict[str, Any]:
    """A run's record before its first trial, as JSON has it."""
    return dict(json.loads(json.dumps(record(**change))))


@pytest.mark.parametrize(
    "what",
    ["versions", "machine", "git", "code", "schemes_added", "foreign", "target", "seed", "settings", "quick", "trials", "capture"],
)
def test_a_run_does_not_go_on_with_trials_of_another(what: str, tmp_path: Path) -> None:
    """Of another machine or other code, or that were asked for in other words."""
    asked = asked_for(
        code={"sha256": "ab"}, schemes_added={"mine.py": "ab"}, foreign={"mine.py": "ab"}, quick=False, capture=["h0"]
    )
    earlier = make_run(tmp_path, [measured(), failed("no faults", 2, "it did not start")], **asked)
    assert runner._earlier(tmp_path, asked | {what: "another"}) is None
    found = runner._earlier(tmp_path, asked | {"started": "later", "finished": False})
    assert found is not None and found.folder == earlier.folder and [t["seed"] for t in found.trials] == [1]
    release(found)


def test_a_run_goes_on_with_the_newest_that_nobody_is_at(tmp_path: Path) -> None:
    older, newer = (make_run(tmp_path, [measured(seed=seed)]) for seed in (1, 2))
    older.folder.rename(tmp_path / "quickstart" / "20200101-000000-seed1")
    found = runner._earlier(tmp_path, asked_for())
    assert found is not None and found.folder == newer.folder
    other = runner._earlier(tmp_path, asked_for())
    assert other is not None and other.folder.name == "20200101-000000-seed1"
    assert runner._earlier(tmp_path, asked_for()) is None
    for run in (found, other):
        release(run)
