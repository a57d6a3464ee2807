"""Machines of a Dask cluster, which is in this process: who may run trials, and what becomes of them.

tests/unit/test_dask_machines.py runs this in a process of its own: Dask leaves threads behind, and other tests fork.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import LocalCluster

from inalab.testbed.campaign import dask_machines, machine
from inalab.testbed.campaign.dask_machines import DaskMachines
from inalab.testbed.campaign.machines import Ended, Event, Gone, MachinesError, Noted, Task
from inalab.testbed.campaign.scheduler import scheduler_at
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import TrialSettings

FINGERPRINT = {"processor": "made up", "kernel": "6.1", "cores": 2, "one_core": 1, "all_cores": 2}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.setattr(machine, "fingerprint", lambda: FINGERPRINT)
    own: dict[str, Any] = {"dashboard_address": ":0", "resources": {"trial": 1}}
    with (
        dask.config.set(temporary_directory=str(tmp_path)),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, **own) as made,
    ):
        yield made


def machines_of(cluster: Any) -> DaskMachines:
    return DaskMachines(scheduler_at(cluster.scheduler_address))


def task(seed: int) -> Task:
    return Task(Trial("one", {}, TrialSettings(), seed), "embedded")


def eventually(what: Callable[[], Any], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.05)


def events(machines: DaskMachines, seconds: float = 20.0) -> list[Event]:
    end = time.monotonic() + seconds
    while not (found := machines.news(0.5)):
        assert time.monotonic() < end
    return found


def test_trials_run_on_the_slots_that_were_chosen(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_machines._runner, "run", lambda trial, stop: {"ran": trial["seed"]})
    machines = machines_of(cluster)
    first, second = machines.slots()
    assert machines.fingerprint(first) == machines.fingerprint(second) == FINGERPRINT
    machines.start(first, task(1))
    machines.start(second, task(2))
    ended: list[Event] = []
    while len(ended) < 2:
        ended += events(machines)
    assert sorted(ended, key=str) == sorted([Ended(first, {"ran": 1}), Ended(second, {"ran": 2})], key=str)
    machines.stop()


def test_a_task_that_raises_is_a_failed_trial(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(trial: Any, stop: Any) -> Any:
        raise RuntimeError("the worker's disk is full")

    monkeypatch.setattr(dask_machines._runner, "run", raises)
    machines = machines_of(cluster)
    (slot, _) = machines.slots()
    machines.start(slot, task(1))
    assert events(machines) == [Ended(slot, failure="RuntimeError: the worker's disk is full")]
    machines.stop()


def test_trials_under_way_end_when_they_are_told_to(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    seen: list[str] = []

    def waits(trial: Any, stop: Any) -> Any:
        begun.append("begun")
        while not stop():
            time.sleep(0.05)
        seen.append("stopped")
        return {"stopped": True}

    monkeypatch.setattr(dask_machines._runner, "run", waits)
    machines = machines_of(cluster)
    (slot, _) = machines.slots()
    machines.start(slot, task(1))
    eventually(lambda: begun)
    machines.stop()  # as a campaign that is killed does
    eventually(lambda: seen == ["stopped"])


def test_other_software_is_refused_in_one_sentence(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = machine.versions() | {"torch": "1.0"}
    monkeypatch.setattr(dask_machines, "_examined", lambda: {"versions": theirs, "unfit": "", "fingerprint": FINGERPRINT})
    with pytest.raises(MachinesError, match=r"has torch 1\.0, and this machine .*: check out the same commit and run `make setup`"):
        machines_of(cluster)


def test_a_machine_that_is_unfit_is_left_out_and_its_trial_runs_elsewhere(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    machines = machines_of(cluster)
    slot, other = machines.slots()
    monkeypatch.setattr(
        dask_machines._runner, "run", lambda trial, stop: {"unfit": "/tmp cannot be written: No space left on device"}
    )
    machines.start(slot, task(1))
    found: list[Event] = []
    while len(found) < 2:
        found += events(machines)
    assert Gone(slot) in found and Noted(f"{slot} runs no trials: /tmp cannot be written: No space left on device") in found
    assert machines.slots() == [other]
    machines.news(0.5)
    assert machines.slots() == [other]
    machines.stop()


def test_a_machine_that_comes_later_and_differs_is_told_and_left_out(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    machines = machines_of(cluster)
    theirs = machine.versions() | {"python": "3.99.0"}
    monkeypatch.setattr(dask_machines, "_examined", lambda: {"versions": theirs, "unfit": "", "fingerprint": FINGERPRINT})
    cluster.scale(3)
    (note,) = events(machines)
    assert isinstance(note, Noted) and "runs no trials: it has python 3.99.0, and this machine" in note.sentence
    assert len(machines.slots()) == 2
    machines.stop()


def test_a_scheduler_that_does_not_answer_is_told_and_looked_for(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    machines = machines_of(cluster)
    slots = machines.slots()
    monkeypatch.setattr(dask_machines, "ANSWERING", 1e-9)
    first, *gone = events(machines)
    assert isinstance(first, Noted) and "does not answer: looking for it again and again" in first.sentence
    assert gone == [Gone(slot) for slot in slots] and machines.slots() == []
    monkeypatch.undo()
    monkeypatch.setattr(machine, "fingerprint", lambda: FINGERPRINT)

    def there() -> bool:
        machines.news(0.5)
        return sorted(machines.slots()) == sorted(slots)

    eventually(there)
    machines.stop()
