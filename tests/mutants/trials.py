"""Mutants tried on copies of the code, several at a time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from tests.mutants.copies import borrowed_cache, copy_code, mutated
from tests.mutants.lists import Mutant
from tests.mutants.runs import Run, Runs

T = TypeVar("T")
U = TypeVar("U")


class Outcome(Enum):
    """What became of a mutant."""

    UNIT = "stopped by a unit test"
    NETWORK = "stopped by a network test"
    SURVIVED = "survived"
    BROKEN = "broken entry"
    LEFT = "left to network tests"


@dataclass(frozen=True)
class Verdict:
    """A mutant, what became of it, and why: the test that failed, or what is wrong with the entry."""

    mutant: Mutant
    outcome: Outcome
    reason: str = ""
    timed_out: bool = False
    seconds: float = 0.0


class UnsoundError(Exception):
    """A test fails without any mutant; str() is one sentence."""


class MutationRun:
    """Mutants of the code below `root`, each tried on one of the copies in `folder`, of which there are `jobs`."""

    def __init__(self, root: Path, folder: Path, jobs: int, patience: float, unit_only: bool) -> None:
        self.jobs, self.patience, self.unit_only = jobs, patience, unit_only
        self.runs = Runs(borrowed_cache(folder / "cache"))
        self.pool = ThreadPoolExecutor(jobs)
        self.copies: queue.Queue[Path] = queue.Queue()
        for number in range(jobs):
            self.copies.put(copy_code(root, folder / f"copy{number}"))
        self.one_network = threading.Lock()  # network tests measure time: two at once would disturb each other

    def check(self, mutants: list[Mutant]) -> None:
        """Run the mutants' tests on the code as it is. Raises UnsoundError for the first that fails."""
        unit = sorted({test for mutant in mutants for test in mutant.unit_tests})
        network = [] if self.unit_only else sorted({test for mutant in mutants for test in mutant.network_tests})
        parts = [part for n in range(self.jobs) if (part := unit[n :: self.jobs])]

        def baseline(tests: list[str]) -> Run:
            with self._copy() as copy:
                return self._network(copy, tests) if tests is network else self.runs.run(copy, tests)

        for run in self._all(baseline, [*parts, *([network] if network else [])]):
            if run.failed:
                raise UnsoundError(f"a test fails without any mutant; mend it first: {run.failed}")

    def judge(self, mutants: list[Mutant]) -> Iterator[Verdict]:
        """Try the mutants; verdicts in the order in which they are found."""
        return self._all(self._judge, mutants)

    def _judge(self, mutant: Mutant) -> Verdict:
        with self._copy() as copy:
            if problem := mutant.problem(copy):
                return Verdict(mutant, Outcome.BROKEN, problem)
            return self._try(copy, mutant)

    def _try(self, copy: Path, mutant: Mutant) -> Verdict:
        seconds = 0.0
        with mutated(copy, mutant):
            for tests, run_tests, outcome in (
                (mutant.unit_tests, self.runs.run, Outcome.UNIT),
                ([] if self.unit_only else mutant.network_tests, self._network, Outcome.NETWORK),
            ):
                if not tests:
                    continue
                run = run_tests(copy, tests, self.patience)
                seconds += run.seconds
                if run.failed:
                    return Verdict(mutant, outcome, run.failed, run.timed_out, seconds)
        left = self.unit_only and mutant.network_tests
        return Verdict(mutant, Outcome.LEFT if left else Outcome.SURVIVED, seconds=seconds)

    def _network(self, copy: Path, tests: list[str], patience: float | None = None) -> Run:
        with self.one_network:
            return self.runs.run(copy, tests, patience)

    @contextmanager
    def _copy(self) -> Iterator[Path]:
        copy = self.copies.get()
        try:
            yield copy
        finally:
            self.copies.put(copy)

    def _all(self, do: Callable[[U], T], work: list[U]) -> Iterator[T]:
        for done in as_completed([self.pool.submit(do, item) for item in work]):
            yield done.result()

    def close(self) -> None:
        """End what runs."""
        self.runs.stop()
        self.pool.shutdown(cancel_futures=True)


@contextmanager
def mutation_run(root: Path, jobs: int, patience: float, unit_only: bool) -> Iterator[MutationRun]:
    """A run over mutants; no process and no copy is left at its end."""
    with (
        TemporaryDirectory(prefix="inalab-mutants-") as folder,
        closing(MutationRun(root, Path(folder), jobs, patience, unit_only)) as made,
    ):
        yield made
