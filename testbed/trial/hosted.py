"""A script on a host: the process that runs it, by itself or below torchrun, and what it tells when it fails.

`python -m inalab.testbed.trial.hosted SCRIPT [ARGUMENTS]` is what torchrun starts.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import runpy
import sys
import threading
import time
import traceback
from contextlib import suppress
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any

from inalab.hosts.launch_files import LaunchFiles, own_rank
from inalab.topologies import isolation

CAUSE_SECONDS = 1.0
GLOO_THREADS = "pt_gloo"  # how their names begin
IDLE_CHECKS, IDLE_TIMEOUT = 3, 5.0  # in a row; seconds


class Runner(Enum):
    """What runs a script on each host."""

    ITSELF = ""
    TORCHRUN = "torchrun"  # which starts an interpreter of its own
    TORCHFT = "torchft"  # as a replica group of its own (hosts.torchft_group)


def on_host(writer: int, given: dict[str, str], script: list[str], runner: Runner = Runner.ITSELF) -> int:
    """Run the script with its output in the pipe `writer` and `given` in its environment; the exit code.

    torch is loaded already, except below torchrun.
    """
    os.dup2(writer, 1)
    os.dup2(writer, 2)
    os.environ.update(given)
    if runner is Runner.TORCHRUN:
        return _below_torchrun(given, script)
    if runner is Runner.TORCHFT:
        from inalab.testbed.trial import torchft_launch  # which loads torchft

        torchft_launch.begin()
    return _to_the_end(script)


def _below_torchrun(given: dict[str, str], script: list[str]) -> int:
    from torch.distributed import run as torchrun
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    logging.disable(logging.ERROR)  # of torchrun alone: the launcher tells how a worker ended
    where = ["--nnodes", given["WORLD_SIZE"], "--nproc-per-node", "1", "--node-rank", given["RANK"]]
    where += ["--master-addr", given["MASTER_ADDR"], "--master-port", given["MASTER_PORT"]]
    where += ["--log-dir", str(LaunchFiles.from_environment().folder / f"torchrun-{given['RANK']}")]
    try:
        torchrun.run(torchrun.parse_args([*where, "-m", "inalab.testbed.trial.hosted", *script]))  # type: ignore[no-untyped-call]
    except ChildFailedError as error:
        code = error.get_first_failure()[1].exitcode
        return isolation.of_shell(code)
    return 0


def _to_the_end(script: list[str]) -> int:
    """Run the script and what the interpreter does at its end, as far as that is Python's; the exit code.

    The rest is left out (the process ends with os._exit): a thread of Gloo's that still runs while its library is taken down
    aborts the process, and says so in the worker's output.
    """
    import torch  # which loads the backend, and cannot be loaded by it

    from inalab.hosts.torch_backend import leave_tally

    torch.set_num_threads(1)
    _wait_for_idle_gloo_threads()
    atexit.register(leave_tally)
    try:
        return run(script)
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()


def _wait_for_idle_gloo_threads() -> None:
    """Have `destroy_process_group` wait until no thread of Gloo's has anything left to do that it could do.

    A model in DistributedDataParallel holds its group. If it goes last, as at the end of a function that has destroyed the group,
    it joins Gloo's threads while it holds the interpreter's lock. A thread that has just completed an all-reduce may still need
    that lock to release the tensor: then neither goes on (PyTorch 2.13). Here the lock is free while such threads finish. One that
    still waits for a peer, because no worker waited for its all-reduce, is not waited for here either.
    """
    import torch.distributed as dist
    from torch.distributed import distributed_c10d

    destroy = dist.destroy_process_group

    @functools.wraps(destroy)
    def destroy_process_group(group: Any = None) -> None:
        end, idle = time.monotonic() + IDLE_TIMEOUT, 0
        while idle < IDLE_CHECKS and time.monotonic() < end:
            time.sleep(0.002)  # without the lock
            idle = 0 if "R" in gloo_threads() else idle + 1
        destroy(group)

    for module in (distributed_c10d, dist):
        setattr(module, destroy.__name__, destroy_process_group)


def gloo_threads() -> list[str]:
    """The state of each thread of this process's process groups: R where it runs or could, S where it sleeps (proc(5))."""
    states = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it may end meanwhile
            if (task / "comm").read_text().startswith(GLOO_THREADS):
                states.append((task / "stat").read_text().rpartition(")")[2].split()[0])
    return states


def run(script: list[str]) -> int:
    """Run a script with its arguments in this process; the exit code. An exception that was not caught becomes a note."""
    sys.path[0] = str(Path(script[0]).resolve().parent)
    sys.argv = script
    try:
        runpy.run_path(script[0], run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        wording = str(end.code)
    except BaseException as error:
        wording = _told(error, script[0])
    else:
        return 0
    sys.stdout.flush()
    LaunchFiles.from_environment().fail(own_rank(), wording)
    return 1


def _told(error: BaseException, script: str) -> str:
    """The traceback from the script on; for a sum or another collective that failed the script's line and a sentence."""
    from inalab.hosts.collective import AggregationError
    from inalab.hosts.gloo import explain
    from inalab.hosts.place import Place
    from inalab.hosts.torch_backend import PLACE

    own = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == script]
    where = f"{script}, line {own[-1]}: " if own else ""
    if isinstance(error, AggregationError):
        return f"{where}AggregationError: {error}"
    if (place := os.environ.get(PLACE)) and (reason := explain(error, Place.loads(place))):
        cause = f" ({found})" if (found := _cause()) else ""
        return f"{where}worker {own_rank()}: a collective over Gloo cannot be completed: {reason}{cause}"
    return "".join(traceback.format_exception(type(error), error, _from(script, error.__traceback__))).rstrip()


def _cause() -> str | None:
    """What ended first, if the launcher finds that out soon: Gloo knows only whose connection was closed."""
    notes, end = LaunchFiles.from_environment(), time.monotonic() + CAUSE_SECONDS
    while (found := notes.reason()) is None and time.monotonic() < end:
        time.sleep(0.05)
    return found


def _from(script: str, trace: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames that led to the script."""
    entry = trace
    while entry is not None and entry.tb_frame.f_code.co_filename != script:
        entry = entry.tb_next
    return entry or trace


if __name__ == "__main__":
    os._exit(_to_the_end(sys.argv[1:]))
