"""A network with jobs on it: its switches with their commands, the jobs' servers, and who watches what must not end."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path

from inalab.hosts.place import Place
from inalab.schemes.scheme import Admitted
from inalab.switches.control import ControlError
from inalab.switches.target import Target
from inalab.testbed.trial.errors import TrialError
from inalab.testbed.trial.places import places_of
from inalab.testbed.trial.servers import SERVERS_END, Server, end_servers, spawn_servers
from inalab.testbed.trial.watch import Watch
from inalab.topologies.network import Network
from inalab.topologies.plan import NetworkPlan

SWITCH_ENDING = 0.5  # seconds from when a switch stops answering until it has ended, if it is going to


class Deployment:
    """Jobs on a running network. `places` are their hosts', by name."""

    def __init__(self, network: Network, admitted: Sequence[Admitted]) -> None:
        self.network, self.admitted = network, admitted
        self.places: dict[str, Place] = places_of(network.plan, admitted)

    def spawn_servers(self) -> dict[int, Server]:
        """Start all servers of the jobs, by pid."""
        return spawn_servers(self.network, self.admitted)

    def watch(self, servers: dict[int, Server], elastic: bool = False) -> Watch:
        """Who notices the end of these servers, of switches and of management links. Of a job that is elastic all may end."""
        spare = [inf if elastic else job.scheme.spare_servers(job.settings) for job in self.admitted]
        return Watch(self.network, [job.plan for job in self.admitted], servers, spare)

    def end_servers(self, pids: Iterable[int], why: Callable[[], str] = lambda: "") -> None:
        """Have servers end once their workers have left. TrialError if some do not; it says `why`, if that is known."""
        if left := end_servers(pids, SERVERS_END):
            raise TrialError(why() or f"{len(left)} servers have not ended {SERVERS_END:g} s after the workers")


@contextmanager
def deployed(
    plan: NetworkPlan, admitted: Sequence[Admitted], target: Target, commands: dict[str, list[str]], seed: int
) -> Iterator[Deployment]:
    """Boot the network on a target, in the namespaces of this process (topologies.isolation). Its switches stop at the end, unless
    an error ends it; then they end with the namespaces.

    Raises NetworkError, SwitchError and ControlError as topologies.network does. Where work on it fails because switches have
    ended, it is TrialError, which names them: all else is the consequence.
    """
    # in a /run that ends with the namespaces: a TemporaryDirectory would be removed at the end of every forked process
    network = Network(plan, target, commands, Path(tempfile.mkdtemp(dir="/run", prefix="inalab-")), seed)
    try:
        yield Deployment(network, admitted)
    except Exception as error:
        end = time.monotonic() + SWITCH_ENDING * isinstance(error, ControlError | OSError)
        while not (dead := network.dead_switches()) and time.monotonic() < end:
            time.sleep(0.02)
        if dead:
            raise TrialError("; ".join(dead)) from error
        raise
    network.stop()
