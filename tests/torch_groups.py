"""Groups of the torch backend without a network: what stands for the scheme, for Gloo, and for the group itself."""

from __future__ import annotations

import select
import threading
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from inalab.hosts.collective import NEVER, AggregationError, Counters, Membership, Operation, Sum, Summing
from inalab.hosts.drivers.sockets import SOCKETS
from inalab.hosts.in_turn import InTurn
from inalab.hosts.tally import Tally
from inalab.hosts.torch_backend import InaProcessGroup, Options


class Doubling(Summing):
    """A collective of two equal workers, which fails in the sums whose numbers are in `fails`."""

    def __init__(self, fails: set[int] | None = None, error: Exception | None = None) -> None:
        super().__init__()
        self.fails, self.error = fails or set(), error
        self.sums = self.under_way = self.most = self.interruptions = 0
        self.closed = False
        self.counters = Counters()

    def _start(self, started: Sum) -> None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)

    def _advance(self, started: Sum, interrupt: int) -> None:
        if interrupt != NEVER and select.select([interrupt], [], [], 0)[0]:
            self.interruptions += 1
            return
        self.under_way -= 1
        self.sums += 1
        if self.sums - 1 in self.fails:
            raise self.error or AggregationError("worker 1 is missing")
        started.end(self.doubled(started))

    def doubled(self, started: Sum) -> Any:
        """The sum."""
        return 2 * started.flat

    def close(self) -> None:
        self.closed = True


class InPlace(Doubling):
    """One that writes the sum over the tensor, where it may."""

    def doubled(self, started: Sum) -> Any:
        if not started.overwrite:
            return super().doubled(started)
        started.flat *= 2
        return started.flat


class GlooWork:
    """Work of Gloo's, which is over when its future is."""

    def __init__(self) -> None:
        self.future: torch.futures.Future[Any] = torch.futures.Future()

    def get_future(self) -> torch.futures.Future[Any]:
        return self.future

    def wait(self) -> None:
        self.future.wait()


class GlooCalls:
    """Stands for Gloo, and keeps what is handed on to it."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        self.given.append(tensors)
        return GlooWork()


def place(rank: int = 0, size: int = 1, native: bool = False, join: Any = None) -> Any:
    scheme = SimpleNamespace(
        name="doubling",
        native=native,
        operations_in=lambda membership: (Operation.SUM,),
        join=join or (lambda place, epoch, pulse: Doubling()),
    )
    return SimpleNamespace(scheme=scheme, membership=Membership(0, rank, size), driver=SOCKETS)


def bare(**given: Any) -> Any:
    """A group with these attributes that has neither a thread nor a Gloo group of its own."""
    made: Any = InaProcessGroup.__new__(InaProcessGroup)
    vars(made).update(
        gloo=GlooCalls(), channel=None, copying=None, calls=None, by_gloo=None, begun=[], own=False, place=place(), options=Options(place()), turn=threading.Lock(),
        rank=lambda: 0, size=lambda: 1, ranks=(0,), simulation=None,
    )  # fmt: skip
    if collective := given.pop("collective", None):
        made.channel = SimpleNamespace(collective=collective, sums=InTurn(collective, SOCKETS), has=lambda operation: False)
    vars(made).update(given)
    return made


def fresh_tally(monkeypatch: pytest.MonkeyPatch) -> Tally:
    """What is counted from now on."""
    made = Tally()
    for module in ("in_turn", "pending", "torch_backend", "gloo_group"):
        monkeypatch.setattr(f"inalab.hosts.{module}.tally", made)
    return made
