"""Machines of a Dask cluster, which is in this process: who may run trials, and what becomes of them.

tests/unit/test_dask_machines.py runs this in a process of its own: Dask leaves threads behind, and other tests fork.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import LocalCluster

from inalab.testbed.campaign import dask_machines, machine
from inalab.testbed.campaign.dask_machines import DaskMachines
from inalab.testbed.campaign.machines import Ended, Event, MachinesError, Task
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


def task(seed: int) -> Task:
    return Task(Trial("one", {}, TrialSettings(), seed), "embedded")


def events(machines: DaskMachines, seconds: float = 20.0) -> list[Event]:
    end = time.monotonic() + seconds
    while not (found := machines.news(0.5)):
        assert time.monotonic() < end
    return found


def test_trials_run_on_the_slots_that_were_chosen(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_machines._runner, "run", lambda trial, stop: {"ran": trial["seed"]})
    machines = DaskMachines(cluster.scheduler_address, "one")
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
    machines = DaskMachines(cluster.scheduler_address, "one")
    (slot, _) = machines.slots()
    machines.start(slot, task(1))
    assert events(machines) == [Ended(slot, failure="RuntimeError: the worker's disk is full")]
    machines.stop()


def test_trials_under_way_end_when_they_are_told_to(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def waits(trial: Any, stop: Any) -> Any:
        while not stop():
            time.sleep(0.05)
        seen.append("stopped")
        return {"stopped": True}

    monkeypatch.setattr(dask_machines._runner, "run", waits)
    machines = DaskMachines(cluster.scheduler_address, "stopped campaign")
    (slot, _) = machines.slots()
    machines.start(slot, task(1))
    time.sleep(0.5)
    machines.stop()
    assert seen == ["stopped"]


def test_other_software_is_refused_in_one_sentence(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = machine.versions() | {"torch": "1.0"}
    monkeypatch.setattr(dask_machines, "_examined", lambda: {"versions": theirs, "fingerprint": FINGERPRINT})
    with pytest.raises(MachinesError, match=r"has torch 1\.0, and this machine .*: check out the same commit and run `make setup`"):
        DaskMachines(cluster.scheduler_address, "one")
