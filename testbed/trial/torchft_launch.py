"""Scripts of torchft's (`inalab launch --torchft`): each worker is a replica group of one process, and its death is a step's loss.

torchft's lighthouse says who is in the next step. It runs beside the launcher, on the management network. The workers' managers
reach each other over the data network, and so does the model that a newcomer gets.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import torch.distributed as dist

from inalab.hosts.place import Place
from inalab.hosts.torch_backend import PLACE
from inalab.schemes.scheme import Admitted
from inalab.testbed.plan.settings import SettingsError
from inalab.testbed.trial.groups import forms_groups
from inalab.topologies import isolation
from inalab.topologies.network import MANAGEMENT_ADDRESS

LIGHTHOUSE_PORT, STORE_PORT = 29510, 29511
SILENCE_MS = 1000  # without a heartbeat, after which a worker is not waited for; a manager sends ten a second
JOIN_MS = 10_000  # for which a worker that is there, and computes, holds the next step up
TICK_MS = 20  # between two looks of the lighthouse
stores: list[Any] = []  # of this process


def require(job: Admitted) -> None:
    """Raise SettingsError where torchft is missing, or the scheme has nothing for a quorum."""
    if find_spec("torchft") is None:
        raise SettingsError("torchft is not installed: pip install inalab[torchft]")
    if not forms_groups(job):
        raise SettingsError(f"scheme {job.scheme.name} has no groups, and each of torchft's quorums is one: choose another scheme")


def start_lighthouse() -> int:
    """Its process; it ends with this one at the latest."""

    def work() -> int:
        from torchft.coordination import LighthouseServer

        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        bind = f"{MANAGEMENT_ADDRESS}:{LIGHTHOUSE_PORT}"
        serving = [LighthouseServer(bind, 1, JOIN_MS, TICK_MS, SILENCE_MS)]  # which ends when nobody has it any more
        signal.pause()
        return len(serving)

    return isolation.fork(work)


def environment(given: Mapping[str, str], address: str) -> dict[str, str]:
    """What a worker's process finds in its environment, as torchrun would have it for a replica group. `address` is its own."""
    return {**given, "REPLICA_GROUP_ID": given["RANK"], "NUM_REPLICA_GROUPS": given["WORLD_SIZE"], "RANK": "0", "WORLD_SIZE": "1",
        "RUST_LOG": os.environ.get("RUST_LOG", "warn"), "MASTER_ADDR": address, "MASTER_PORT": str(STORE_PORT),
        "TORCHFT_LIGHTHOUSE": f"http://{MANAGEMENT_ADDRESS}:{LIGHTHOUSE_PORT}"}  # fmt: skip


def begin() -> None:
    """Make this process a replica group. Others reach it by its address on the data network, and it has a store of its own."""
    place = Place.loads(os.environ[PLACE])
    isolation.call_host(place.peers[place.membership.rank])
    import torchft  # which looks up what its host is called
    from torchft import process_group

    from inalab.hosts.torchft_group import ProcessGroupIna

    port = int(os.environ["MASTER_PORT"])
    stores.append(dist.TCPStore(os.environ["MASTER_ADDR"], port, is_master=True, wait_for_workers=False))  # type: ignore[attr-defined]
    for module in (torchft, process_group):
        module.ProcessGroupGloo = ProcessGroupIna
