"""Machines of a Dask cluster: each worker process is a slot, if it has the resource of trials.

A worker runs trials in processes that end with it. What the scheduler forgets when it dies is run again: results are the
campaign's as soon as they arrive, and no other's.
"""

from __future__ import annotations

import time
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from distributed import Client, Future
from distributed.comm.addressing import get_address_host_port
from distributed.comm.core import CommClosedError

from inalab.testbed.campaign import machine, one
from inalab.testbed.campaign.machines import Ended, Event, Gone, MachinesError, Task

RESOURCE = "trial"  # of a worker, 1: trials that measure time share no cores
CONNECTING = 5.0  # seconds
LOOKS = 0.25  # seconds between two looks at the cluster
FETCHING = 5.0  # seconds that a result may take from its worker to here
ANSWERS = 60.0  # seconds that a worker has for its versions and its fingerprint

_runner = one.Runner()  # on a worker
_stopped: set[str] = set()  # on a worker: campaigns whose trials are to end


def _stop(campaign: str) -> None:
    _stopped.add(campaign)


def _run(trial: dict[str, Any], campaign: str) -> dict[str, Any]:
    return _runner.run(trial, lambda: campaign in _stopped)


def _examined() -> dict[str, Any]:
    return {"versions": machine.versions(), "fingerprint": machine.fingerprint()}


def _fetched(future: Future) -> dict[str, Any] | None:
    """What a task has returned; None where it has died with its worker before that could be fetched."""
    try:
        result: dict[str, Any] = future.result(timeout=FETCHING)
    except (TimeoutError, CancelledError, OSError, CommClosedError):
        return None
    except Exception as error:  # the task's own
        return {"failed": f"{type(error).__name__}: {error}"}
    return result


def checked(address: str) -> str:
    """An address that a Dask scheduler can have; MachinesError for what is none."""
    try:
        if not address.startswith("inproc://"):  # a scheduler in this process, which has no port
            get_address_host_port(address)
    except ValueError as error:
        raise MachinesError(f"{address} is no address of a Dask scheduler, such as tcp://10.0.0.1:8786: {error}") from None
    return address


class DaskMachines:
    """The workers of the scheduler at an address. Raises MachinesError if none answers, or their software differs from this."""

    def __init__(self, address: str, campaign: str) -> None:
        self.address, self.campaign = checked(address), campaign
        self.fingerprints: dict[str, dict[str, Any]] = {}
        self.running: dict[str, Future] = {}
        self.examined: dict[str, Future] = {}
        self.refused: dict[str, str] = {}  # workers that are left out, and why
        self.client: Client | None = None
        try:
            self._connect()
            self._examine(wait=ANSWERS)
        except OSError as error:
            raise MachinesError(f"no Dask scheduler answers at {address}: start one with `dask scheduler` ({error})") from None
        if self.refused:
            why = next(iter(self.refused.values()))
            self.stop()
            raise MachinesError(why)

    def _connect(self) -> None:
        self.client = Client(self.address, timeout=CONNECTING, set_as_default=False)

    def slots(self) -> list[str]:
        """The workers that have been examined and run what runs here."""
        return list(self.fingerprints)

    def fingerprint(self, slot: str) -> dict[str, Any]:
        """See Machines."""
        return self.fingerprints[slot]

    def start(self, slot: str, task: Task) -> None:
        """See Machines."""
        if self.client is not None:
            self.running[slot] = self._submit(slot, _run, one.described(task), self.campaign)

    def news(self, seconds: float) -> list[Event]:
        """See Machines. While the scheduler is away, all slots are; it is looked for again and again."""
        deadline = time.monotonic() + seconds
        while True:
            found = self._look()
            if found or time.monotonic() > deadline:
                return found
            time.sleep(LOOKS)

    def _look(self) -> list[Event]:
        if self.client is None or self.client.status != "running":
            lost: list[Event] = [Gone(slot) for slot in self.fingerprints]
            self._forget()
            with suppress(OSError):
                self._connect()
            return lost
        try:
            there = self._examine()
        except (OSError, CommClosedError):
            return []  # the client finds out
        found: list[Event] = []
        for slot in list(self.fingerprints):
            future = self.running.get(slot)
            if slot not in there or (future is not None and future.status in ("cancelled", "lost")):
                self.running.pop(slot, None)
                del self.fingerprints[slot]
                found.append(Gone(slot))
            elif future is not None and future.done() and (result := _fetched(future)) is not None:
                del self.running[slot]
                found.append(Ended.of(slot, result))
        return found

    def _examine(self, wait: float = 0.0) -> set[str]:
        """Take in the workers that are new, once they have told what they are; all that there are."""
        assert self.client is not None
        deadline = time.monotonic() + wait
        while True:
            workers = self.client.scheduler_info(n_workers=-1)["workers"]
            there = {address for address, info in workers.items() if info["resources"].get(RESOURCE)}
            for address in there - self.fingerprints.keys() - self.examined.keys() - self.refused.keys():
                self.examined[address] = self._submit(address, _examined)
            for address, future in list(self.examined.items()):
                info = _fetched(future) if future.done() else None
                if info is not None or address not in there:
                    del self.examined[address]
                if info is not None and "failed" in info:
                    self.refused[address] = f"{address} cannot run trials: {info['failed']}: run the same `make setup` there"
                elif info is not None:
                    self._take(address, info)
            if not self.examined or time.monotonic() >= deadline:
                return there
            time.sleep(LOOKS)

    def _take(self, address: str, reply: dict[str, Any]) -> None:
        own, theirs = machine.versions(), reply["versions"]
        if differing := [name for name in own if theirs.get(name) != own[name]]:
            name = differing[0]
            self.refused[address] = (
                f"{address} has {name} {theirs.get(name)}, and this machine {own[name]}: check out the same commit and run "
                "`make setup` there"
            )
        else:
            self.fingerprints[address] = reply["fingerprint"]

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

    def stop(self) -> None:
        """See Machines."""
        if self.client is not None and self.client.status == "running" and self.running:
            with suppress(OSError, CommClosedError, TimeoutError):
                self.client.run(_stop, self.campaign, workers=list(self.running), on_error="ignore")
                deadline = time.monotonic() + CONNECTING
                while not all(future.done() for future in self.running.values()) and time.monotonic() < deadline:
                    time.sleep(LOOKS)
        self._forget()
