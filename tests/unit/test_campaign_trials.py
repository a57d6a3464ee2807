"""A campaign's trials without a network: what one is, its result that is kept once, its file and its process."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inalab.schemes import registry
from inalab.testbed import backends
from inalab.testbed.backends.backend import Backend
from inalab.testbed.campaign import file, machine, one, one_process
from inalab.testbed.campaign import identity as identities
from inalab.testbed.campaign.identity import foreign_files, identity
from inalab.testbed.campaign.machines import Task
from inalab.testbed.campaign.store import Store
from inalab.testbed.command.request import Request, understood
from inalab.testbed.plan import experiment
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError, TrialSettings, make_settings
from inalab.testbed.record.runs import ResultsError
from inalab.testbed.trial.errors import TrialError
from inalab.topologies import isolation

FINGERPRINT = {"processor": "made up", "kernel": "6.1", "cores": 2, "one_core": 1, "all_cores": 2}


def trial(name: str = "one", seed: int = 1, **settings: Any) -> Trial:
    return Trial(name, {"name": name}, make_settings(TrialSettings, settings), seed)


def task(planned: Trial, target: str = "embedded") -> Task:
    return Task(planned, target, foreign_files(planned))


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
    monkeypatch.setattr("inalab.testbed.campaign.identity.code", lambda: "other code")
    others.append(identity(trial(), "embedded"))
    assert len({first, *others}) == len(others) + 1
    assert machine.versions()["code"] == "other code"


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("p4/include/loss.p4", True), ("hosts/tcp/ring.py", True), ("schemes/ring.py", True), ("switches/atp.py", True),
        ("topologies/plan.py", True), ("testbed/trial/validity.py", True), ("testbed/record/steps.py", True),
        ("testbed/simulator/costs.json", True), ("testbed/virtual/network.py", True), ("testbed/theory/bounds.py", True), ("testbed/plan/settings.py", True),
        ("testbed/plan/groups.py", True), ("testbed/backends/networks.py", True), ("requirements.lock", True), ("testbed/draw/curves.py", False), ("docs/a.md", False),
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
from inalab.schemes.ring import Ring
from inalab.schemes.scheme import Look

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
    assert one.described(task(own))["schemes"] == [str(own_scheme)] and one.described(task(trial()))["schemes"] == []
    own_scheme.write_text(OWN_SCHEME + "# faster")
    assert identity(own, "embedded") != first
    assert identity(trial(jobs=[{"scheme": "mine"}, {}], scheme="ring"), "embedded") != first
    assert identity(trial(scheme="ring"), "embedded") == ring
    own_scheme.write_text(OWN_SCHEME)
    assert identity(own, "embedded") == first


P4_SCHEME = """
from pathlib import Path
from inalab.schemes.ring import Ring
from inalab.schemes.scheme import Look
import json, numpy, torch  # of Python's, and installed

class Mine(Ring):
    name, look, program = "mine", Look("mine", "black"), Path(__file__).parent / "mine.p4"

    def later(self):
        import inalab_helper
        from inalab_kit.deep import part

SCHEME = Mine()
"""
PARTS = {
    "inalab_helper.py": "import inalab_second", "inalab_second.py": "", "inalab_kit/__init__.py": "",
    "inalab_kit/deep/part.py": "from ..beside import Y", "inalab_kit/beside.py": "", "mine.p4": '#include "macros.p4"\n#include "sub/more.p4"\n#if K == 64\n#include "k64.p4"\n#endif\n',
    "macros.p4": "#define N 4", "sub/more.p4": '#include "../last.p4"', "last.p4": "const bit<8> N_LAST = N;", "k64.p4": "",
}  # fmt: skip


def test_whatever_a_schemes_file_reads_is_part_of_its_trials(own_scheme: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = own_scheme.parent / "other"
    for name, text in {
        "mine.py": P4_SCHEME,
        "unrelated.py": "",
        "inalab_kit/unrelated.py": "",
        "unrelated.p4": "",
        **PARTS,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(folder)
    del registry._known()["mine"]
    registry.add(str(folder / "mine.py"))
    own, others = trial(scheme="mine"), trial(scheme="ring")
    files = identities.foreign_files(own)
    assert {str(Path(path).relative_to(folder)) for path in files} == {"mine.py", *PARTS}
    assert identities.foreign_files(others) == {}
    seen = {identity(own, "embedded")}
    for name in ["mine.py", *PARTS]:
        (folder / name).write_text((folder / name).read_text() + "\n")
        seen.add(identity(own, "embedded"))
    assert len(seen) == len(PARTS) + 2
    (folder / "unrelated.py").write_text("x = 1")
    assert identity(own, "embedded") in seen
    wide = trial(scheme="mine", k=256)
    assert str(folder / "k64.p4") not in identities.foreign_files(wide)


@pytest.mark.parametrize(
    ("imported", "counts"),
    [("inalab.testbed.measures", True), ("inalab.experiments.workers", True), ("inalab.testbed.trial.sampled", False), ("inalab.hosts.tcp.ring", False), ("torch", False)],
)  # fmt: skip
def test_code_of_ours_that_no_other_digest_covers_is_part_of_a_schemes_trials(
    imported: str, counts: bool, own_scheme: Path
) -> None:
    own_scheme.write_text(f"import {imported}\n{OWN_SCHEME}")
    found = {Path(path).name for path in identities.foreign_files(trial(scheme="mine"))} - {"__init__.py", own_scheme.name}
    assert bool(found) is counts


def test_files_that_change_places_make_another_trial(own_scheme: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for side, text in (("inalab_left", "X = 1"), ("inalab_right", "X = 2")):
        (own_scheme.parent / side).mkdir()
        (own_scheme.parent / side / "__init__.py").write_text(text)
    own_scheme.write_text(f"import inalab_left, inalab_right, inalab_none\n{OWN_SCHEME}")
    (own_scheme.parent / "inalab_none.py").write_text("print 'for another Python'")
    monkeypatch.syspath_prepend(own_scheme.parent)
    first = identity(trial(scheme="mine"), "embedded")
    assert len(identities.foreign_files(trial(scheme="mine"))) == 4
    (own_scheme.parent / "inalab_left").rename(own_scheme.parent / "aside")
    (own_scheme.parent / "inalab_right").rename(own_scheme.parent / "inalab_left")
    (own_scheme.parent / "aside").rename(own_scheme.parent / "inalab_right")
    assert identity(trial(scheme="mine"), "embedded") != first


def test_a_process_that_has_imported_other_files_runs_no_more_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    echo = tmp_path / "echo"
    echo.write_text("#!/bin/sh\nwhile read line; do echo '{}'; done\n")
    echo.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(echo))
    runner, processes = one.Runner(), []
    try:
        for files in ({}, {}, {"mine.py": "a"}, {"mine.py": "a"}, {"mine.py": "b"}):
            assert runner.run({"foreign": files}, lambda: False) == {}
            assert runner.process is not None
            processes.append(runner.process.pid)
    finally:
        runner.end()
    a, b, c = dict.fromkeys(processes)
    assert processes == [a, a, b, b, c]


def test_a_machine_whose_files_are_others_says_so(own_scheme: Path) -> None:
    wording = one.described(task(trial(scheme="mine"), "simulated"))
    own_scheme.write_text(OWN_SCHEME + "# faster")
    assert one._result(wording) == {"failed": f"{own_scheme} is another file here than when the campaign was planned"}


def test_what_is_said_by_default_is_the_same_trial() -> None:
    assert identity(trial(slots=32, workers=4), "embedded") == identity(trial(), "embedded")


@pytest.mark.parametrize("name", experiment.names())
def test_every_experiments_trials_survive_the_journey_to_another_machine(name: str) -> None:
    _, chosen, settings = understood(Request(name, "embedded", 1, [], quick=True), strict=False)
    for planned in chosen.trials(settings, 1):
        wording = json.loads(json.dumps(one.described(task(planned))))
        there = make_settings(TrialSettings, wording["settings"])
        arrived = Trial(planned.name, {}, there, wording["seed"])
        assert identity(arrived, wording["target"]) == identity(planned, "embedded")


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
from inalab.testbed.campaign.store import Store
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
    monkeypatch.setattr("sys.argv", ["one_process", str(os.getppid() + 1)])
    monkeypatch.setattr("sys.stdin", iter(["no JSON"]))
    one_process.main()
    monkeypatch.setattr("sys.argv", ["one_process", str(os.getppid())])
    with pytest.raises(ValueError, match="Expecting value"):
        one_process.main()


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
    ("text", "wording"),
    [
        ("", "run: field required"),
        ("run = []", "run: tuple should have at least 1 item"),
        ("[[run]]\nseed = 1", "run.1.experiment: field required"),
        ("[[run]]\nexperiment = 'workers'\nseeds = 3", "run.1.seeds: extra inputs are not permitted"),
        ("[[run]", "is no campaign"),
        ("[[run]]\nexperiment = 'workers'\nseed = -1", "run.1.seed: input should be greater"),
    ],
)
def test_a_file_that_is_no_campaign_is_refused(text: str, wording: str, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(SettingsError, match=wording):
        file.read(tmp_path / "c.toml")


def ran(request: dict[str, Any], stop: one.Stop) -> dict[str, Any]:
    runner = one.Runner()
    try:
        return runner.run(request, stop)
    finally:
        runner.end()


def test_a_trials_process_that_dies_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert ran({"foreign": {}}, lambda: False) == {"failed": "its process ended with exit code 1"}


def test_a_machine_that_cannot_be_written_to_is_unfit_and_not_its_trial(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert machine.unfit() == ""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    (tmp_path / "file").touch()
    why = f"{tmp_path}/file/inalab cannot be written: Not a directory"
    assert ran({"foreign": {}}, lambda: False) == {"unfit": why}
    monkeypatch.undo()

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.posix_fallocate", full)
    assert machine.unfit().endswith(" cannot be written: No space left on device")


def test_a_process_runs_one_trial_after_another_until_it_is_told_to_end() -> None:
    runner = one.Runner()
    try:
        wording = runner.run(one.described(task(trial())) | {"target": "nix"}, lambda: False)
        assert "target nix is unknown" in wording["failed"]
        process = runner.process
        looks = iter(range(1000))
        long = one.described(task(trial(steps=100_000, workers=1, racks=1)))
        assert runner.run(long, lambda: next(looks) > 2) == {"stopped": True}
        assert process is not None and process.poll() is not None and runner.process is None
    finally:
        runner.end()


def test_a_trial_runs_as_it_was_described(own_scheme: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = json.loads(json.dumps(one.described(task(trial(scheme="mine", loss=0.1, seed=5), "simulated"))))
    registry._known().pop("mine")  # another process does not know it

    class Made(Backend):
        def run(self, settings: TrialSettings, seed: int, report: Any, capture: Any = None) -> dict[str, Any]:
            if settings.loss == 0.5:
                raise TrialError("worker 1 died")
            return {"scheme": settings.scheme, "loss": settings.loss, "seed": seed, "target": self.name}

    def made(name: str) -> Made:
        found = Made()
        found.name = name
        return found

    monkeypatch.setattr(backends, "find", made)
    assert one._result(request) == {"scheme": "mine", "loss": 0.1, "seed": 5, "target": "simulated"}
    assert one._result(one.described(task(trial(loss=0.5)))) == {"failed": "worker 1 died"}


def test_a_machines_speed_is_that_of_all_its_cores_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2})
    monkeypatch.setattr(machine, "MEASURE", "print(100.4)")
    found = machine.fingerprint.__wrapped__()
    assert (found["cores"], found["one_core"], found["all_cores"]) == (3, 100, 301)
