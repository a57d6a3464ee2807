"""`inalab launch`: any PyTorch script on the hosts of an emulated network, one process a host."""

from __future__ import annotations

import atexit
import os
import runpy
import selectors
import signal
import sys
import tempfile
import threading
import time
import traceback
from functools import partial
from pathlib import Path

from experiments.fleet import commands_for, spawn_servers
from experiments.places import place_of, rendezvous
from experiments.settings import SettingsError, TrialSettings
from hosts.torch_backend import PLACE
from switches.control import ControlError
from switches.target import SwitchError, Target
from topologies import isolation
from topologies.links import NetworkError
from topologies.network import Network
from topologies.racks import HostPlan, NetworkPlan

OF_TRAINING = (
    "workload", "steps", "batch", "learning_rate", "compute_ms", "evaluate_every", "measure_error", "straggler", "outage_at",
    "timeline", "jobs", "background",
)  # fmt: skip
LAST_WORDS = 1.0  # seconds for what is still in the pipes when all workers have ended
GRACE = 10.0  # seconds that the others have to end after one has failed


def launch(settings: TrialSettings, seed: int, target: Target, script: list[str], torchrun: bool) -> int:
    """Run a script with its arguments on every host; what they print comes with their ranks. The first exit code that is not 0."""
    if not Path(script[0]).is_file():
        raise SettingsError(f"there is no script {script[0]}")
    if unknown := [key for key in OF_TRAINING if getattr(settings, key) != TrialSettings.model_fields[key].default]:
        raise SettingsError(f"{', '.join(unknown)} is of the project's own training: a script that is launched knows nothing of it")
    pid = isolation.start(partial(_inside, settings, seed, target, script, torchrun))
    try:
        return isolation.wait(pid)
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        isolation.wait(pid)
        raise


def environment(settings: TrialSettings, plan: NetworkPlan, host: HostPlan) -> dict[str, str]:
    """What a process on a host finds in its environment.

    The workers meet on the management network; where the scheme is gloo, Gloo itself is on the data network.
    """
    ((job, parameters),) = settings.admitted(plan)
    meeting = rendezvous(job, host, settings.scheme)
    place = place_of(plan, job, host, parameters)
    return {
        PLACE: place.dumps(), "RANK": str(host.rank), "WORLD_SIZE": str(plan.racks.size), "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": meeting.address, "MASTER_PORT": str(meeting.port),
        "GLOO_SOCKET_IFNAME": meeting.interface, "OMP_NUM_THREADS": "1",
    }  # fmt: skip


def _inside(settings: TrialSettings, seed: int, target: Target, script: list[str], torchrun: bool) -> int:
    """The first process of the network's namespaces."""
    plan = NetworkPlan(settings.topology())
    commands = commands_for(settings, plan, seed)
    try:
        with tempfile.TemporaryDirectory(dir="/run", prefix="inalab-") as scratch:
            network = Network(plan, target, commands, Path(scratch), seed)
            code = _run(network, settings, script, torchrun)
            network.stop()
            return code
    except (NetworkError, SwitchError, ControlError) as error:
        print(f"inalab: {error}", file=sys.stderr)
        return 1


def _run(network: Network, settings: TrialSettings, script: list[str], torchrun: bool) -> int:
    outputs = selectors.DefaultSelector()
    ranks = {}
    ((job, parameters),) = settings.admitted(network.plan)
    spawn_servers(network, lambda host: place_of(network.plan, job, host, parameters))
    for host in network.plan.hosts:
        reader, writer = os.pipe()
        given = environment(settings, network.plan, host)
        ranks[network.spawn(host.rank, partial(_script, writer, given, script, torchrun))] = host.rank
        os.close(writer)
        outputs.register(reader, selectors.EVENT_READ, [host.rank, b""])
    failed, deadline = 0, float("inf")
    ended_at = float("inf")
    while (ranks or outputs.get_map()) and time.monotonic() < ended_at:
        for key, _ in outputs.select(0.1):
            if not _forward(key.fd, key.data):
                outputs.unregister(key.fd)
        for pid in list(ranks):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended and (code := os.waitstatus_to_exitcode(status)) and not failed:
                failed, deadline = code if code > 0 else 128 - code, time.monotonic() + GRACE
                print(f"inalab: worker {ranks[pid]} ended with exit code {failed}", file=sys.stderr, flush=True)
            if ended:
                del ranks[pid]
        if not ranks:
            ended_at = min(ended_at, time.monotonic() + LAST_WORDS)
        if time.monotonic() > deadline:
            for pid in ranks:
                os.kill(pid, signal.SIGKILL)
            deadline = float("inf")
    return failed


def _forward(descriptor: int, state: list) -> bool:  # type: ignore[type-arg]
    """Print the whole lines that have come, with the rank; False at the end of the output."""
    rank, rest = state
    data = os.read(descriptor, 65536)
    *lines, state[1] = (rest + data).split(b"\n")
    if not data and state[1]:
        lines.append(state[1])
    for line in lines:
        sys.stdout.buffer.write(f"[{rank}] ".encode() + line + b"\n")
    sys.stdout.buffer.flush()
    return bool(data)


def _script(writer: int, given: dict[str, str], script: list[str], torchrun: bool) -> int:
    """The process on a host. torch is loaded already, except below torchrun, which starts an interpreter of its own."""
    os.dup2(writer, 1)
    os.dup2(writer, 2)
    os.environ.update(given)
    sys.path[0] = str(Path(script[0]).resolve().parent)
    if torchrun:
        where = ["--nnodes", given["WORLD_SIZE"], "--nproc-per-node", "1", "--node-rank", given["RANK"]]
        where += ["--master-addr", given["MASTER_ADDR"], "--master-port", given["MASTER_PORT"]]
        os.execv(sys.executable, [sys.executable, "-m", "torch.distributed.run", *where, *script])
    import torch

    torch.set_num_threads(1)
    sys.argv = script
    try:
        runpy.run_path(script[0], run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:  # as the interpreter does at its end
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    return 0
