"""Machines of a Dask cluster: each worker process is a slot, if it has the resource of trials.

A worker runs trials in processes that end with it, or as soon as the campaign that wants them is gone. What the scheduler forgets
when it dies is run again: results are the campaign's as soon as they arrive, and no other's.
"""

from __future__ import annotations

import time
import warnings
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from distributed import Client, Future, get_worker
from distributed.comm.core import CommClosedError
from distributed.versions import VersionMismatchWarning

from inalab.testbed.campaign import machine, one
from inalab.testbed.campaign.machines import Ended, Event, Gone, MachinesError, Noted, Task
from inalab.testbed.campaign.scheduler import AbsentError, Scheduler

RESOURCE = "trial"  # of a worker, 1: trials that measure time share no cores
CONNECTING = 30.0  # seconds
LOOKS = 0.25  # seconds between two looks at the cluster
ANSWERING = 30.0  # seconds that the scheduler has to name its workers
FETCHING = 5.0  # seconds that a result may take from its worker to here
ANSWERS = 60.0  # seconds that a worker has for its versions and its fingerprint

_runner = one.Runner()  # on a worker


def _run(trial: dict[str, Any]) -> dict[str, Any]:
    worker = get_worker()
    task = worker.state.tasks[worker.get_current_task()]
    return _runner.run(trial, lambda: task.state == "cancelled")  # released by the campaign, or with its connection


def _examined() -> dict[str, Any]:
    return {"versions": machine.versions(), "unfit": machine.unfit(), "fingerprint": machine.fingerprint()}


def _fetched(future: Future) -> dict[str, Any] | None:
    """What a task has returned; None where it has died with its worker before that could be fetched."""
    try:
        result: dict[str, Any] = future.result(timeout=FETCHING)
    except (TimeoutError, CancelledError, OSError, CommClosedError):
        return None
    except Exception as error:  # the task's own
        return {"failed": f"{type(error).__name__}: {error}"}
    return result


class DaskMachines:
    """The workers of a scheduler. Raises MachinesError if none answers, or their software differs from this."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.fingerprints: dict[str, dict[str, Any]] = {}
        self.running: dict[str, Future] = {}
        self.examined: dict[str, Future] = {}
        self.refused: dict[str, str] = {}  # workers that are left out, and why
        self.notes: list[Event] = []  # for `news`
        self.trouble: list[str] = []  # that has been told
        self.client: Client | None = None
        try:
            self._connect()
            self._examine(wait=ANSWERS)
        except OSError as error:
            self._forget()
            raise MachinesError(f"the scheduler at {scheduler.address} does not answer ({error}): start it again") from None
        if self.refused:
            why = next(iter(self.refused.values()))
            self.stop()
            raise MachinesError(why)
        self.notes = [Noted(f"{address} does not answer: it is frozen, or busy for another campaign") for address in self.examined]

    def _connect(self) -> None:
        self.scheduler.greet()  # says what is wrong, which Dask does not
        warnings.simplefilter("ignore", VersionMismatchWarning)  # `_take` says it
        self.client = Client(self.scheduler.address, timeout=CONNECTING, set_as_default=False, security=self.scheduler.security())

    def slots(self) -> list[str]:
        """The workers that have been examined and run what runs here."""
        return list(self.fingerprints)

    def fingerprint(self, slot: str) -> dict[str, Any]:
        """See Machines."""
        return self.fingerprints[slot]

    def start(self, slot: str, task: Task) -> None:
        """See Machines."""
        if self.client is not None:
            self.running[slot] = self._submit(slot, _run, one.described(task))

    def news(self, seconds: float) -> list[Event]:
        """See Machines. While the scheduler is away, all slots are; it is looked for again and again."""
        deadline = time.monotonic() + seconds
        while True:
            seen = self._look()
            found, self.notes = self.notes + seen, []
            if found or time.monotonic() > deadline:
                return found
            time.sleep(LOOKS)

    def _look(self) -> list[Event]:
        if self.client is None:
            return self._look_for_scheduler()
        if self.client.status != "running":
            return self._lose()
        try:
            there = self._examine()
        except (OSError, CommClosedError):
            return self._lose()
        found: list[Event] = []
        for slot in list(self.fingerprints):
            future = self.running.get(slot)
            if slot not in there or (future is not None and future.status in ("cancelled", "lost")):
                self.running.pop(slot, None)
                del self.fingerprints[slot]
                found.append(Gone(slot))
            elif future is not None and future.done() and (result := _fetched(future)) is not None:
                del self.running[slot]
                if "unfit" in result:
                    del self.fingerprints[slot]
                    self._refuse(slot, result["unfit"])
                found.append(Gone(slot) if "unfit" in result else Ended.of(slot, result))
        return found

    def _look_for_scheduler(self) -> list[Event]:
        try:
            with suppress(OSError, AbsentError):
                self._connect()
        except MachinesError as error:  # its keys are others now
            if str(error) not in self.trouble:
                self.trouble.append(str(error))
                return [Noted(str(error))]
        return []

    def _examine(self, wait: float = 0.0) -> set[str]:
        """Take in the workers that are new, once they have told what they are; all that there are."""
        assert self.client is not None and self.client.scheduler is not None
        deadline = time.monotonic() + wait
        while True:
            known = self.client.sync(self.client.scheduler.identity, n_workers=-1, callback_timeout=ANSWERING)
            there = {address for address, info in known["workers"].items() if info["resources"].get(RESOURCE)}
            for address in there - self.fingerprints.keys() - self.examined.keys() - self.refused.keys():
                self.examined[address] = self._submit(address, _examined)
            for address, future in list(self.examined.items()):
                info = _fetched(future) if future.done() else None
                if info is not None or address not in there:
                    del self.examined[address]
                if info is not None and "failed" in info:
                    self._refuse(address, f"{info['failed']}: run the same `make setup` there")
                elif info is not None:
                    self._take(address, info)
            if not self.examined or time.monotonic() >= deadline:
                return there
            time.sleep(LOOKS)

    def _take(self, address: str, reply: dict[str, Any]) -> None:
        own, theirs = machine.versions(), reply["versions"]
        if differing := [name for name in own if theirs.get(name) != own[name]]:
            name = differing[0]
            self._refuse(
                address, f"it has {name} {theirs.get(name)}, and this machine {own[name]}: check out the same commit and run "
                "`make setup` there",
            )  # fmt: skip
        elif reply["unfit"]:
            self._refuse(address, reply["unfit"])
        else:
            self.fingerprints[address] = reply["fingerprint"]

    def _refuse(self, address: str, why: str) -> None:
        self.refused[address] = f"{address} runs no trials: {why}"
        self.notes.append(Noted(self.refused[address]))

    def _submit(self, slot: str, function: Any, *arguments: Any) -> Future:
        assert self.client is not None
        return self.client.submit(
            function, *arguments, workers=[slot], allow_other_workers=False, resources={RESOURCE: 1}, pure=False, retries=0
        )

    def _forget(self) -> None:
        self.fingerprints, self.running, self.examined = {}, {}, {}
        if self.client is not None:
            with suppress(Exception):
                self.client.close(timeout=1)
        self.client = None

    def _lose(self) -> list[Event]:
        """The scheduler is away, and whatever it had."""
        lost: list[Event] = [Noted(f"the scheduler at {self.scheduler.address} does not answer: looking for it again and again")]
        lost += [Gone(slot) for slot in self.fingerprints]
        self._forget()
        return lost

    def stop(self) -> None:
        """See Machines. Workers end what a campaign no longer wants."""
        self._forget()
