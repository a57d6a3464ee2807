"""Virtual compute time and stragglers for any script that `inalab launch` runs.

    from inalab.hosts.training.pace import pace

    for x, y in batches:
        with pace.compute():
            loss = criterion(model(x), y)
        loss.backward()

Each block takes as long as a step's virtual compute time, `--set compute_ms=50`, times the worker's slow-down in that step,
`--set straggler=slow`. A block that computes for longer takes its own time, and the launcher says how many there were. One that
raises is no step. backward() is outside, because DDP's communication is in it. Blocks do not nest, and belong in one thread.
Without `inalab launch` nothing is padded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache

from inalab.hosts.drivers.driver import Driver
from inalab.hosts.drivers.sockets import SOCKETS
from inalab.hosts.tally import tally
from inalab.hosts.training.stragglers import Straggler

VARIABLE = "INALAB_PACE"  # the environment variable: compute_ms, seed, rank, and the straggler's parameters


class Pace:
    """Pads blocks of computation, one a step."""

    def __init__(self, compute_ms: float, seed: int, rank: int, straggler: Straggler, driver: Driver | None = None) -> None:
        self.driver = driver or SOCKETS
        self.compute_ms, self.seed, self.rank, self.straggler = compute_ms, seed, rank, straggler
        self.step = 0

    def seconds(self, step: int) -> float:
        """A step's virtual compute time."""
        return self.compute_ms / 1000 * self.straggler.slowdown(self.seed, self.rank, step)

    @contextmanager
    def compute(self) -> Iterator[None]:
        """A step's computation: leaving the block waits for the end of its virtual time."""
        begun = self.driver.monotonic()
        yield
        due = begun + self.seconds(self.step)
        self.step += 1
        tally.paced += 1
        tally.late += self.driver.monotonic() > due
        padded_sleep(due, self.driver)


class _OfTheEnvironment:
    """The pace that `inalab launch` sets. It is read when it is needed: workers are forked when this module is imported already."""

    def compute(self) -> AbstractContextManager[None]:
        """See Pace.compute. Without a launcher nothing is padded."""
        return _pace().compute() if VARIABLE in os.environ else nullcontext()


@cache
def _pace() -> Pace:
    given = json.loads(os.environ[VARIABLE])
    from inalab.hosts.virtual_script import ScriptDriver, current  # which loads PyTorch

    driver = ScriptDriver(current[0]) if current else None
    return Pace(given["compute_ms"], given["seed"], given["rank"], Straggler(**given["straggler"]), driver)


def padded_sleep(until: float, driver: Driver = SOCKETS) -> None:
    """Sleep until the driver's clock reaches `until`."""
    while (left := until - driver.monotonic()) > 0:
        driver.sleep(left)


pace = _OfTheEnvironment()
