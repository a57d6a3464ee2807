"""Campaigns without a network: what a trial is, results that are kept once, and who runs what."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from schemes import registry
from testbed.campaign import campaign as campaigns
from testbed.campaign import file, machine, one
from testbed.campaign import identity as identities
from testbed.campaign.campaign import Campaign, Planned, read_status
from testbed.campaign.file import RunWords
from testbed.campaign.identity import identity
from testbed.campaign.machines import Ended, Gone, Here
from testbed.campaign.schedule import MOST_LOST, Schedule, Work
from testbed.campaign.store import Store
from testbed.command import campaigner, runner
from testbed.plan import experiment
from testbed.plan.asking import Asked, understood
from testbed.plan.experiment import Trial
from testbed.plan.settings import SettingsError, TrialSettings, make_settings
from testbed.record.runs import ResultsError, Run, load_run, release
from testbed.trial.errors import TrialError
from tests.runs import failed, make_run, record
from tests.runs import trial as measured
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
    assert machine.versions()["code"] == "other code"


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("p4/include/loss.p4", True), ("hosts/tcp/ring.py", True), ("schemes/ring.py", True), ("switches/atp.py", True),
        ("topologies/plan.py", True), ("testbed/trial/validity.py", True), ("testbed/record/steps.py", True),
        ("testbed/simulator/costs.json", True), ("testbed/theory/bounds.py", True), ("testbed/plan/settings.py", True),
        ("testbed/plan/groups.py", True), ("requirements.lock", True), ("testbed/draw/curves.py", False), ("docs/a.md", False),
        ("testbed/report/page.py", False), ("testbed/campaign/store.py", False), ("experiments/workers.py", False),
    ],
)  # fmt: skip
def test_what_takes_part_in_a_trial_makes_it_another(
    file: str, counts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identities, "ROOT", tmp_path)
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text("as it was")
    before = identities.code.__wrapped__()
    (tmp_path / file).write_text("as it is")
    assert (identities.code.__wrapped__() != before) is counts


OWN_SCHEME = """
from schemes.ring import Ring
from schemes.scheme import Look

class Mine(Ring):
    name, look = "mine", Look("mine", "black")

SCHEME = Mine()
"""


@pytest.fixture
def own_scheme(tmp_path: Path) -> Iterator[Path]:
    """The file of a scheme from outside the tree, which is forgotten afterwards."""
    known, path = dict(registry._known()), tmp_path / "mine.py"
    path.write_text(OWN_SCHEME)
    registry.add(str(path))
    yield path
    registry._known().clear()
    registry._known().update(known)


def test_a_trial_of_a_schemes_file_is_another_when_the_file_has_changed(own_scheme: Path) -> None:
    own, ring = trial(scheme="mine"), identity(trial(scheme="ring"), "embedded")
    first = identity(own, "embedded")
    assert one.described(own, "embedded")["schemes"] == [str(own_scheme)] and one.described(trial(), "embedded")["schemes"] == []
    own_scheme.write_text(OWN_SCHEME + "# faster")
    assert identity(own, "embedded") != first
    assert identity(trial(jobs=[{"scheme": "mine"}, {}], scheme="ring"), "embedded") != first
    assert identity(trial(scheme="ring"), "embedded") == ring
    own_scheme.write_text(OWN_SCHEME)
    assert identity(own, "embedded") == first


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


def test_a_trials_process_does_nothing_if_who_began_it_died_before_it_asked_to_die_with_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It changes where descriptor 1 leads, which `capfd` takes back."""
    monkeypatch.setattr(isolation, "die_with_parent", lambda: None)
    monkeypatch.setattr("sys.argv", ["one", str(os.getppid() + 1)])
    monkeypatch.setattr("sys.stdin", iter(["no JSON"]))
    one.main()
    monkeypatch.setattr("sys.argv", ["one", str(os.getppid())])
    with pytest.raises(ValueError, match="Expecting value"):
        one.main()


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


def test_what_is_compared_is_a_block_and_no_two_runs_share_one(tmp_path: Path) -> None:
    run, other = planned(2, (0.0, 0.1)), planned(2, (0.1, 0.2, 0.5))
    campaign = Campaign(tmp_path, [run, other])
    campaign.store.commit(run.trials[1][0], {})
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
    campaign._show(Schedule(blocks(5)), {"a": {}, "b": {}})
    assert read_status(tmp_path)[0].left is None  # none has ended
    campaign.took = [10.0, 50.0]
    campaign._show(Schedule(blocks(5)), {"a": {}, "b": {}})
    assert read_status(tmp_path)[0].left == 75.0


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
    monkeypatch.setattr("testbed.command.campaigner.signal.signal", lambda *_: None)
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
    "what", ["versions", "machine", "git", "code", "schemes_added", "target", "seed", "settings", "quick", "trials", "capture"]
)
def test_a_run_does_not_go_on_with_trials_of_another(what: str, tmp_path: Path) -> None:
    """Of another machine or other code, or that were asked for in other words."""
    asked = asked_for(code={"sha256": "ab"}, schemes_added={"mine.py": "ab"}, quick=False, capture=["h0"])
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


# --- its file, and one trial in a process of its own


def test_a_file_says_which_runs_and_the_rest_is_as_inalab_run_has_it(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(
        "[[run]]\nexperiment = 'workers'\n[[run]]\nexperiment = 'loss'\nseed = 7\nset = ['k=256', 'seeds=3']\nquick = true\n"
        "scheme = './mine.py'\ntarget = 'simulated'"
    )
    plain, whole = file.read(tmp_path / "c.toml").run
    assert plain.model_dump() == {"experiment": "workers", "seed": 1, "set": (), "quick": False, "scheme": None, "target": ""}
    assert whole.model_dump() == {
        "experiment": "loss", "seed": 7, "set": ("k=256", "seeds=3"), "quick": True, "scheme": "./mine.py", "target": "simulated",
    }  # fmt: skip


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


def test_a_process_runs_one_trial_after_another_until_it_is_told_to_end() -> None:
    runner = one.Runner()
    try:
        told = runner.run(one.described(trial(), "embedded") | {"target": "nix"}, lambda: False)
        assert "target nix is unknown" in told["failed"]
        process = runner.process
        looks = iter(range(1000))
        long = one.described(trial(steps=100_000, workers=1, racks=1), "embedded")
        assert runner.run(long, lambda: next(looks) > 2) == {"stopped": True}
        assert process is not None and process.poll() is not None and runner.process is None
    finally:
        runner.end()


def test_a_trial_runs_as_it_was_described(own_scheme: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = json.loads(json.dumps(one.described(trial(scheme="mine", loss=0.1, seed=5), "simulated")))
    registry._known().pop("mine")  # another process does not know it

    def run_trial(settings: TrialSettings, seed: int, target: Any, hear: Any) -> dict[str, Any]:
        if settings.loss == 0.5:
            raise TrialError("worker 1 died")
        return {"scheme": settings.scheme, "loss": settings.loss, "seed": seed, "target": target}

    monkeypatch.setattr(one, "run_trial", run_trial)
    monkeypatch.setattr(one, "target_for", lambda name, program, k: f"{name} at {k}")
    assert one._result(asked) == {"scheme": "mine", "loss": 0.1, "seed": 5, "target": "simulated at 64"}
    assert one._result(one.described(trial(loss=0.5), "embedded")) == {"failed": "worker 1 died"}


def test_this_machine_tells_each_end_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "fingerprint", lambda: FINGERPRINT)
    here = Here()
    monkeypatch.setattr(here.runner, "run", lambda asked, stop: {"seed": asked["seed"]})
    assert here.slots() == {"here": FINGERPRINT} and here.news(0.0) == []
    for seed in (1, 2):
        here.start("here", {"seed": seed})
        assert here.news(5.0) == [Ended("here", {"seed": seed})]
        assert here.news(0.0) == []
    here.stop()


def test_a_machines_speed_is_that_of_all_its_cores_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2})
    monkeypatch.setattr(machine, "MEASURE", "print(100.4)")
    found = machine.fingerprint.__wrapped__()
    assert (found["cores"], found["one_core"], found["all_cores"]) == (3, 100, 301)
