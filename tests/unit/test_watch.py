"""What a watch reports of a network that a test makes up: the cause before its consequences, each once, nothing too soon."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, Pipe
from typing import Any, cast

import pytest

from inalab.hosts.coordination import LOST
from inalab.hosts.messages import Failure
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.trial import watch
from inalab.testbed.trial.errors import TrialError
from inalab.testbed.trial.job_run import JobRun
from inalab.testbed.trial.servers import Server
from inalab.testbed.trial.watch import Watch
from inalab.testbed.trial.workers import Workers
from inalab.topologies.jobs import deal
from inalab.topologies.network import Network
from inalab.topologies.plan import NetworkPlan
from inalab.topologies.racks import Racks


class MadeUp:
    """As much of a network as a watch looks at."""

    def __init__(self) -> None:
        self.plan = NetworkPlan(Racks(2, 2, None, None, 2))
        self.dead: list[str] = []
        self.lost: list[str] = []

    def dead_switches(self) -> list[str]:
        return self.dead

    def unreachable(self) -> list[str]:
        return self.lost


def child(work: Callable[[], Any]) -> int:
    """A process that does this work and ends with its result as the exit code."""
    if (pid := os.fork()) == 0:
        os._exit(work() or 0)
    born.append(pid)
    return pid


born: list[int] = []  # processes


@pytest.fixture(autouse=True)
def reaped() -> Any:
    """Leave no process behind."""
    yield
    while born:
        with suppress(ChildProcessError):  # it has been reaped, and its pid may be another's
            if os.waitpid(pid := born.pop(), os.WNOHANG) == (0, 0):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def watching(servers: list[int], jobs: int = 1) -> tuple[MadeUp, Watch]:
    network = MadeUp()
    plans = deal(network.plan, [[2 // jobs, 2 // jobs]] * jobs, [2 // jobs] * jobs)
    return network, Watch(cast(Network, network), plans, dict(zip(servers, map(Server, network.plan.servers), strict=True)))


def looked(seen: Watch, seconds: float = 20.0) -> str:
    """The first trouble within so many seconds."""
    end, why = time.monotonic() + seconds, ""
    while not why and time.monotonic() < end:
        why = seen.look(time.monotonic())
        time.sleep(0.01)
    return why


@pytest.fixture
def servers() -> Any:
    return [child(lambda: time.sleep(60)) for _ in range(2)]


def test_all_is_well(servers: list[int]) -> None:
    assert looked(watching(servers)[1], 0.1) == ""


def test_a_dead_switch_comes_before_its_consequences(servers: list[int]) -> None:
    network, seen = watching(servers)
    network.dead, network.lost = ["switch tor0 was killed by SIGKILL"], ["h0"]
    os.kill(servers[0], signal.SIGKILL)
    assert looked(seen) == "switch tor0 was killed by SIGKILL"


@pytest.mark.parametrize(("jobs", "name"), [(1, "server 1 (host s1)"), (2, "server 0 of job 1 (host s1)")])
def test_a_server_that_a_signal_ends_is_trouble(servers: list[int], jobs: int, name: str) -> None:
    seen = watching(servers, jobs)[1]
    os.kill(servers[1], signal.SIGTERM)
    assert looked(seen) == f"{name} was killed by SIGTERM"
    assert list(seen.servers) == [servers[0]]


@pytest.mark.parametrize("code", [0, 1])
def test_a_server_that_ends_by_itself_is_trouble_too(servers: list[int], code: int) -> None:
    ended = child(lambda: code)
    seen = watching([servers[0], ended])[1]
    assert looked(seen) == f"server 1 (host s1) ended with exit code {code}"
    assert list(seen.servers) == [servers[0]]


def test_background_traffic_must_not_end_at_all(servers: list[int]) -> None:
    seen = watching(servers)[1]
    seen.background = {child(lambda: 0): "the sink"}
    assert looked(seen) == "the sink ended with exit code 0"


def test_a_link_must_be_down_for_a_while_without_a_break(servers: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "CUT_SECONDS", 10.0)
    network, seen = watching(servers)
    network.lost = ["h1"]
    assert seen.look(100.0) == seen.look(109.0) == ""
    network.lost = []
    assert seen.look(109.5) == ""
    network.lost = ["h1"]
    assert seen.look(110.5) == seen.look(120.4) == ""
    network.lost = ["h1", "s0"]
    sentences = "the management network is cut: it does not reach worker 1 (host h1), server 0 (host s0)"
    assert seen.look(120.6) == sentences
    assert seen.cut() == sentences


def test_looks_are_rationed(servers: list[int]) -> None:
    network, seen = watching(servers)
    assert seen.trouble() == ""
    network.dead = ["switch tor0 ended with exit code 1"]
    assert seen.trouble() == ""
    time.sleep(watch.EVERY)
    assert seen.trouble() == "switch tor0 ended with exit code 1"


def test_a_worker_that_could_not_reach_the_coordinator_tells_so_by_how_it_ends() -> None:
    """The cut takes a worker's connection as an error at one end and as its end at the other, whichever comes first."""
    (plan,) = deal(NetworkPlan(Racks(2, 2, None, None)), [[2, 2]], [0])
    pipes = [Pipe() for _ in range(4)]

    def ends(mine: Connection, code: int) -> int:
        for ours, theirs in pipes:
            ours.close()
            if theirs is not mine:
                theirs.close()
        mine.close()
        time.sleep(0.2)  # a process takes a while from its last word to its end
        return code

    codes = [LOST, 0, 1, LOST]
    nobody, _ = Pipe()
    running = Workers([JobRun(plan, TrialSettings(), 0.0, False)], nobody)
    running.pids = {child(partial(ends, pipes[rank][1], codes[rank])): (0, rank) for rank in (1, 2, 3)}
    for _, theirs in pipes:
        theirs.close()
    running.lost = {(0, 0)}
    why = running._cut({(0, rank): pipes[rank][0] for rank in range(4)})
    assert why == "the management network is cut: it does not reach workers 0, 3"
    assert not running.pids


class Open:
    """A rendezvous through which these come at the first look."""

    def __init__(self, connections: list[Connection]) -> None:
        self.connections = connections

    def look(self, seconds: float) -> list[Connection]:
        time.sleep(seconds)
        came, self.connections = self.connections, []
        return came


@pytest.mark.parametrize("killed", [False, True])
def test_who_died_before_the_join_is_to_blame_for_the_failures_of_others(servers: Any, killed: bool) -> None:
    """Their connections to it fail before its parent learns of its end."""
    (plan,) = deal(NetworkPlan(Racks(2, 2, None, None)), [[2, 2]], [0])
    pipes = {rank: Pipe() for rank in (2, 3)}

    def dies() -> int:
        time.sleep(0.3 if killed else 30)
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    def fails(rank: int) -> int:
        pipes[rank][1].send(Failure(0, rank, f"worker {rank}: connection refused"))
        if killed:
            select.select([pid_of_last], [], [])  # what they lost was lost before they end
        return 1

    nobody, _ = Pipe()
    running = Workers([JobRun(plan, TrialSettings(), 0.0, False)], nobody)
    last = child(dies)
    pid_of_last = os.pidfd_open(last)
    running.pids = {child(partial(fails, rank)): (0, rank) for rank in pipes} | {last: (0, 1)}
    how = "workers 1, 2, 3 did not join: worker 1 was killed by SIGKILL" if killed else r"worker [23]: connection refused"
    with pytest.raises(TrialError, match=how):
        running.join(cast(Any, Open([ours for ours, _ in pipes.values()])), watching(servers)[1])
    if not killed:
        os.kill(last, signal.SIGKILL)
        os.waitpid(last, 0)
    os.close(pid_of_last)
