"""The command `inalab campaign`: run one, on this machine or on a Dask cluster, and tell how it is going."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from inalab.testbed.command.interruption import INTERRUPTED
from inalab.testbed.command.terminal import Terminal
from inalab.topologies import isolation

console = Terminal(soft_wrap=True)


class RunsByDefault(TyperGroup):
    """`inalab campaign FILE` is `inalab campaign run FILE`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = args and (args[0] in self.commands or args[0].startswith("-"))
        return super().resolve_command(ctx, args if known else ["run", *args])


application = typer.Typer(
    cls=RunsByDefault, add_completion=False, no_args_is_help=True,
    help="Trials of many experiments and seeds, here or over many machines: inalab campaign FILE.",
)  # fmt: skip
File = Annotated[Path, typer.Argument(metavar="FILE.toml", help="which runs; docs/how-to/campaigns.md describes it")]
Results = Annotated[Path, typer.Option(help="folder that runs and campaigns are kept in")]
On = Annotated[str | None, typer.Option("--on", metavar="ADDRESS", help="of a Dask scheduler, such as tcp://10.0.0.1:8786")]


class Again(StrEnum):
    INVALID = "invalid"


@application.command()
def run(
    file: File,
    on: On = None,
    results: Results = Path("results"),
    again: Annotated[Again | None, typer.Option(help="run trials whose results are not valid once more, and replace these")] = None,
) -> None:
    """Run a campaign, or go on with one: what has a result is not run again."""
    from inalab.testbed.campaign.file import read
    from inalab.testbed.command.campaigner import conduct

    raise typer.Exit(conduct(file.stem, read(file).run, on, results, console, again is not None))


@application.command()
def status(file: File, results: Results = Path("results")) -> None:
    """Tell what of a campaign is there, what runs where, and how long the rest takes."""
    from inalab.testbed.campaign.campaign import read_status
    from inalab.testbed.command.campaigner import FOLDER

    found, running = read_status(results / FOLDER / file.stem)
    console.print(f"{file.stem}: {found.done} of {found.trials} trials are there, {len(found.failed)} failed")
    if not running:
        console.print("no process is at it" + ("" if found.done == found.trials else f": inalab campaign {file} goes on"))
        return
    for slot, name in sorted(found.running.items()):
        console.print(f"  {slot}: {name}")
    until = time.strftime("%H:%M", time.localtime(found.updated + found.left)) if found.left is not None else "not known yet"
    console.print(f"{found.slots} slots; until {until}")


@application.command()
def worker(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="of the Dask scheduler")],
    cores: Annotated[int, typer.Option(min=1, help="of each slot")] = 2,
) -> None:
    """Offer this machine's cores to a scheduler, in slots that share none, until Ctrl-C; they come back when the scheduler does."""
    mine = sorted(os.sched_getaffinity(0))
    slots = [mine[n : n + cores] for n in range(0, len(mine) - cores + 1, cores)] or [mine]
    dask = Path(sys.executable).with_name("dask")
    if not dask.exists():
        raise typer.BadParameter("Dask is missing, which campaigns over machines need: pip install distributed")
    from inalab.testbed.campaign.dask_machines import checked

    checked(address)
    words = [str(dask), "worker", address, "--nworkers", "1", "--nthreads", "1", "--resources", "trial=1", "--no-dashboard"]
    words += ["--death-timeout", "10", "--local-directory", "/tmp"]
    console.print(f"{len(slots)} slots of {len(slots[0])} cores for {address}")

    def begin(own: list[int]) -> subprocess.Popen[bytes]:
        command = ["taskset", "-c", ",".join(map(str, own)), *words]
        return subprocess.Popen(command, start_new_session=True, preexec_fn=isolation.die_with_parent)  # noqa: PLW1509 (no thread)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    running = [begin(own) for own in slots]
    try:
        while True:
            time.sleep(1)
            for n, process in enumerate(running):
                if process.poll() is not None:
                    running[n] = begin(slots[n])
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait()
