"""The command `inalab campaign`: run one, on this machine or on a Dask cluster, and tell how it is going."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from inalab.testbed.command.interruption import INTERRUPTED
from inalab.testbed.command.terminal import Terminal
from inalab.topologies import isolation

if TYPE_CHECKING:
    from inalab.testbed.campaign.scheduler import Scheduler

console = Terminal(soft_wrap=True)
DASK = (sys.executable, "-m", "dask")
NO_PAGES = ("--no-dashboard", "--dashboard-address", "127.0.0.1:0")  # which have no TLS
ANY = "0.0.0.0"
LOST = "60s"  # after which a machine that says nothing is gone; longer than Dask's processes ever pause


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
On = Annotated[
    str | None, typer.Option("--on", metavar="ADDRESS", help="run on the machines of this scheduler, such as tls://10.0.0.1:8786")
]
Address = Annotated[str, typer.Argument(metavar="ADDRESS", help="of the scheduler, such as tls://10.0.0.1:8786")]
KeysFolder = Annotated[
    Path | None,
    typer.Option("--keys", metavar="FOLDER", help="of the machines' keys", show_default="~/.config/inalab/campaign-keys"),
]
NoTLS = Annotated[bool, typer.Option("--no-tls", help="no keys: whoever reaches the machines can run programs there as you")]


def found(address: str, keys: Path | None, no_tls: bool) -> Scheduler:
    """The scheduler that a user names. Raises MachinesError."""
    from inalab.testbed.campaign.machines import MachinesError

    try:
        from inalab.testbed.campaign.scheduler import scheduler_at
    except ImportError as error:
        raise MachinesError(f"several machines need {error.name}, which is missing: pip install 'inalab[campaign]'") from None
    scheduler = scheduler_at(address, keys, not no_tls)
    if scheduler.keys is None:
        console.print(f"without TLS: whoever reaches {scheduler.address} can run programs as you", style="yellow")
    return scheduler


class Again(StrEnum):
    INVALID = "invalid"


@application.command()
def run(
    file: File,
    on: On = None,
    keys: KeysFolder = None,
    no_tls: NoTLS = False,
    results: Results = Path("results"),
    again: Annotated[Again | None, typer.Option(help="run trials whose results are not valid once more, and replace these")] = None,
) -> None:
    """Run a campaign, or go on with one: what has a result is not run again."""
    from inalab.testbed.campaign.file import read
    from inalab.testbed.command.campaigner import conduct

    words = read(file).run
    scheduler = found(on, keys, no_tls) if on is not None else None
    raise typer.Exit(conduct(file.stem, words, scheduler, results, console, again is not None))


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
def keys(
    folder: KeysFolder = None, days: Annotated[int, typer.Option(min=1, max=36500, help="for which they are valid")] = 365
) -> None:
    """Make the keys by which the machines of your campaigns know each other, and which each of them needs a copy of."""
    from inalab.testbed.campaign.keys import FOLDER, make

    made = make(folder or FOLDER, days)
    console.print(
        f"keys for {days} days are in {made.folder}: copy this folder to the same place on every machine, and to nobody else"
    )


@application.command()
def scheduler(
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="to listen on", show_default="all of this machine's")] = "",
    port: Annotated[int, typer.Option(min=0, max=65535, help="to listen on")] = 8786,
    keys: KeysFolder = None,
    no_tls: NoTLS = False,
) -> None:
    """Start a Dask scheduler, to which workers and campaigns come, until Ctrl-C."""
    listening = found(f"{host or ANY}:{port}", keys, no_tls)
    words = [*DASK, "scheduler", "--host", listening.address, *listening.words(), *NO_PAGES]
    os.environ.setdefault("DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL", LOST)
    os.execv(words[0], words)


@application.command()
def worker(
    address: Address,
    cores: Annotated[int, typer.Option(min=1, help="of each slot")] = 2,
    keys: KeysFolder = None,
    no_tls: NoTLS = False,
) -> None:
    """Offer this machine's cores to a scheduler, in slots that share none, until Ctrl-C; they come back when the scheduler does."""
    from inalab.testbed.campaign.machine import unfit
    from inalab.testbed.campaign.machines import MachinesError

    scheduler = found(address, keys, no_tls)
    if why := unfit():
        raise MachinesError(why)
    mine = sorted(os.sched_getaffinity(0))
    slots = [mine[n : n + cores] for n in range(0, len(mine) - cores + 1, cores)] or [mine]
    console.print(f"{len(slots)} slots of {len(slots[0])} cores for {scheduler.address}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        _work(scheduler, slots)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def _work(scheduler: Scheduler, slots: Sequence[Sequence[int]]) -> None:
    """Keep a worker process on each slot's cores, whenever the scheduler is there. Raises MachinesError if it has other keys."""
    from inalab.testbed.campaign.scheduler import AbsentError

    running: dict[int, subprocess.Popen[bytes]] = {}
    told = ""
    try:
        while True:
            ended = [n for n in range(len(slots)) if n not in running or running[n].poll() is not None]
            try:
                if ended:
                    scheduler.greet()
                    told = ""
                for n in ended:
                    running[n] = _begin(scheduler, slots[n])
            except AbsentError as error:
                if str(error) != told:
                    told = str(error)
                    console.print(f"waiting for the scheduler: {told}")
            time.sleep(1)
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()


def _begin(scheduler: Scheduler, cores: Sequence[int]) -> subprocess.Popen[bytes]:
    own = ["taskset", "-c", ",".join(map(str, cores))]
    words = [*DASK, "worker", scheduler.address, *scheduler.words(), *NO_PAGES, "--nworkers", "1", "--nthreads", "1"]
    words += ["--resources", "trial=1", "--death-timeout", "10"]
    return subprocess.Popen([*own, *words], start_new_session=True, preexec_fn=isolation.die_with_parent)  # noqa: PLW1509 (no thread)
