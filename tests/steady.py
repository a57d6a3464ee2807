"""python -m tests.steady: run all tests again and again beside busy processes, and list what failed: a test must not depend on luck."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from inalab.topologies import isolation

FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
BUSY = "while True: pass"


@contextmanager
def load(processes: int) -> Iterator[None]:
    """So many processes that do nothing but compute."""
    command = [sys.executable, "-c", BUSY]
    running = [subprocess.Popen(command, preexec_fn=isolation.die_with_parent) for _ in range(processes)]  # noqa: PLW1509 (no thread)
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def main(
    arguments: Annotated[list[str], typer.Argument(help="of pytest: how to run, and what if not all but the deep ones")],
    times: Annotated[int, typer.Option(min=1, help="runs")] = 10,
    busy: Annotated[int, typer.Option(min=0, help="busy processes beside them")] = 2,
) -> None:
    """Run tests again and again beside busy processes, and list what failed and how often. The exit code is 1 if any did."""
    failed: Counter[str] = Counter()
    for number in range(1, times + 1):
        with load(busy):
            done = subprocess.run(
                [sys.executable, "-m", "pytest", *arguments, "-rfE", "--color=no"],
                capture_output=True,
                text=True,
                check=False,
            )
        names = FAILED.findall(done.stdout) or ([f"exit code {done.returncode}"] if done.returncode else [])
        failed.update(names)
        print(f"run {number} of {times}: {'; '.join([*names, *done.stdout.strip().splitlines()[-2:]])}", flush=True)
        if names:
            print(done.stdout, flush=True)
    for name, count in failed.most_common():
        print(f"failed in {count} of {times} runs: {name}")
    raise typer.Exit(int(bool(failed)))


if __name__ == "__main__":
    typer.run(main)
