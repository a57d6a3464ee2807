"""python -m tests.mutants: put each mutant into a copy of the code, and see whether a test notices."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from inalab.topologies import isolation
from tests.mutants import report
from tests.mutants.copies import CopyError
from tests.mutants.lists import ListError, Mutant, read_lists
from tests.mutants.trials import UnsoundError, mutation_run
from tests.shares import share

INTERRUPTED = 130
console = Console(width=None if sys.stdout.isatty() else 100, soft_wrap=True, highlight=False, markup=False)


def main(
    area: Annotated[list[str] | None, typer.Option(help="only this list's mutants; may be repeated")] = None,
    name: Annotated[str, typer.Option(help="only mutants whose name contains this")] = "",
    share_: Annotated[str, typer.Option("--share", metavar="I/N", help="only the I-th of N equal shares")] = "1/1",
    unit_only: Annotated[bool, typer.Option("--unit-only", help="no network tests")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="mutants tried at a time")] = 2,
    patience: Annotated[float, typer.Option(help="seconds until a mutant's tests are ended; it counts as stopped")] = 300,
    root: Annotated[Path, typer.Option(help="the repository")] = Path(),
) -> None:
    """Put each mutant of tests/mutants/*.toml into a copy of the code, and see whether a test notices."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        mutants = read_lists(root)
        chosen = [m for m in share(mutants, share_) if name in m.name and (not area or m.area in area)]
        if not chosen:
            raise ListError("no mutant has that area and name in that share")
        raise typer.Exit(_try(root.resolve(), chosen, jobs, patience, unit_only, len(chosen) == len(mutants)))
    except (CopyError, ListError, UnsoundError, ValueError) as error:
        console.print(f"error: {error}")
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        console.print("interrupted: every test has ended and the copies are removed")
        raise typer.Exit(INTERRUPTED) from None


def _try(root: Path, mutants: list[Mutant], jobs: int, patience: float, unit_only: bool, whole: bool) -> int:
    if not unit_only and any(m.network_tests for m in mutants) and not isolation.possible():
        raise ListError("network tests make namespaces, which this user may not: run as root, or with --unit-only")
    with mutation_run(root, jobs, patience, unit_only) as made:
        console.print(f"{len(mutants)} mutants; first their tests without any")
        made.check([m for m in mutants if not m.problem(root)])
        verdicts = []
        for verdict in made.judge(mutants):
            verdicts.append(verdict)
            console.print(report.line(verdict))
    console.print(report.table(verdicts))
    problems = report.failures(verdicts, whole and not unit_only)
    for problem in problems:
        console.print(f"error: {problem}")
    return int(bool(problems))


if __name__ == "__main__":
    typer.run(main)
