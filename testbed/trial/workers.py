"""A trial's workers, as the coordinator sees them: their processes, their connections, and how they end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path

from inalab.hosts.collective import workers
from inalab.hosts.coordination import LOST
from inalab.hosts.messages import Abort, Failure, Forked, FromWorker, Hello, Lost, Start
from inalab.hosts.place import Place
from inalab.hosts.training.pipeline import OF_TORCH
from inalab.hosts.worker import WorkerSettings, run_worker
from inalab.testbed.trial.errors import TrialError
from inalab.testbed.trial.job_run import JobRun, training
from inalab.testbed.trial.load import WINDOW
from inalab.testbed.trial.places import rendezvous
from inalab.testbed.trial.rendezvous import Rendezvous
from inalab.testbed.trial.watch import Watch, ended
from inalab.topologies import isolation
from inalab.topologies.network import Network

JOIN_SECONDS = 60.0
GRACE = 5.0  # seconds that workers have to explain themselves after one has died
OTHERS_LOST = 3.0  # seconds in which the other connections end that the same cut has cost
Key = tuple[int, int]  # a worker: job and rank


class Workers:
    """Of all jobs of a trial. `sender` gets what they say."""

    def __init__(self, jobs: list[JobRun], sender: Connection) -> None:
        self.jobs, self.sender = jobs, sender
        self.pids: dict[int, Key] = {}  # that run
        self.connections: dict[Key, Connection] = {}
        self.lost: set[Key] = set()  # those that the management network does not reach
        self.blamed = jobs  # those that ended by themselves, if some did not end well

    def failed(self) -> bool:
        return any(job.failures for job in self.jobs)

    def why(self) -> str:
        """Why they failed, in a sentence."""
        return "; ".join(job.why() for job in self.blamed if job.failures)

    def fork(self, network: Network, places: dict[str, Place], joining: Rendezvous, seed: int, folder: Path | None) -> None:
        """Have every worker begin on its host; `joining` is where it connects, and `folder` is for groups that workers form."""
        for job in self.jobs:
            s, trained = job.settings, training(job.settings, seed)
            for rank, host in enumerate(job.plan.hosts):
                meeting = rendezvous(job.plan, host, s.of_scheme().native or s.pipeline in OF_TORCH)
                settings = WorkerSettings(places[host.name], meeting, joining.address, joining.secret, trained, s.timeline, folder)
                pid = network.spawn(host.rank, partial(run_worker, settings))
                self.pids[pid] = (job.plan.number, rank)
                self.sender.send(Forked(job.plan.number, rank, pid))

    def join(self, joining: Rendezvous, watch: Watch, look: Callable[[], None] = lambda: None) -> None:
        """Wait until every worker has said hello, and `look` often; TrialError names those that did not.

        One that died is to blame before one that failed: the others' connections to it fail first, and are heard of first.
        """
        end = time.monotonic() + JOIN_SECONDS
        waiting: list[Connection] = []
        expected = set(self.pids.values())
        failures: dict[Key, str] = {}
        dead: dict[Key, str] = {}
        while missing := sorted(expected - set(self.connections)):
            dead |= self._reap()  # before the last words, which may have come meanwhile
            waiting += joining.look(WINDOW)
            look()
            for connection in wait(waiting, 0):
                assert isinstance(connection, Connection)
                waiting.remove(connection)
                try:
                    hello: Hello | Failure = connection.recv()
                except (EOFError, OSError):
                    continue
                if isinstance(hello, Failure):
                    failures[hello.job, hello.rank] = self.jobs[hello.job].named(hello.text)
                    end = min(end, time.monotonic() + GRACE)
                    continue
                self.jobs[hello.job].hear(hello)
                self.connections[hello.job, hello.rank] = connection
                self.sender.send(hello)
            if why := watch.trouble():
                raise TrialError(why)
            died = [how for key, how in dead.items() if key not in failures]
            if died or failures.keys() & dead.keys() or time.monotonic() > end:
                if why := watch.cut():
                    raise TrialError(why)
                if failures and not died:
                    raise TrialError(next(iter(failures.values())))
                why = "; ".join(died) or f"not heard of after {JOIN_SECONDS:g} s"
                raise TrialError(f"{self._named(missing)} did not join: {why}")

    def start(self, at: float) -> None:
        """Have every job start at its own time after `at`, a time of time.monotonic."""
        for (job, _), connection in self.connections.items():
            _send(connection, Start(at + self.jobs[job].start))

    def follow(self, look: Callable[[], None], due: Callable[[], float] = lambda: float("inf")) -> None:
        """Collect what the workers say until all are done, or until one is dead and the others have explained.

        Meanwhile `look`, often, and at the times that are `due`. Raises TrialError at once if the management network is cut.
        """
        open_ = dict(self.connections)
        give_up, failed = float("inf"), self.jobs
        while open_ and time.monotonic() < give_up:
            for connection in wait(list(open_.values()), max(0.0, min(WINDOW, due() - time.monotonic()))):
                key = next(k for k, c in open_.items() if c is connection)
                try:
                    assert isinstance(connection, Connection)
                    message: FromWorker = connection.recv()
                except (EOFError, ConnectionResetError):
                    del open_[key]
                    continue
                except OSError:
                    self.lost.add(key)
                    continue
                self.jobs[key[0]].hear(message)
                self.sender.send(message)
            self._fail_dead()
            look()
            if self.lost:
                raise TrialError(self._cut(open_))
            if self.failed() and give_up == float("inf"):
                give_up = time.monotonic() + GRACE
                failed = [job for job in self.jobs if job.failures]  # the others only end because of these
                reason = next(job.reason() for job in self.jobs if job.failures)
                for (job, rank), connection in open_.items():
                    if rank not in self.jobs[job].failures:
                        _send(connection, Abort(reason))
        self._wait_for_ends({(job.plan.number, rank) for job in failed for rank in job.silent()} - set(open_))
        for run in failed:
            for rank in run.silent():
                run.fail(rank, f"worker {rank} said nothing more")
        self.blamed = failed

    def _named(self, keys: Iterable[Key]) -> str:
        """These workers, with their jobs where there are several."""
        ranks: dict[int, list[int]] = {}
        for job, rank in sorted(keys):
            ranks.setdefault(job, []).append(rank)
        return "; ".join(self.jobs[job].named(workers(who)) for job, who in ranks.items())

    def _reap(self) -> dict[Key, str]:
        """Workers that ended since the last look, and how."""
        dead = {}
        for pid, (job, rank) in list(self.pids.items()):
            if (code := ended(pid)) is not None:
                del self.pids[pid]
                if code == LOST:
                    self.lost.add((job, rank))
                if code:
                    dead[job, rank] = f"worker {rank} {isolation.ending(code)}"
        return dead

    def _fail_dead(self) -> None:
        for (job, rank), how in self._reap().items():
            self.jobs[job].die(rank, how)
            if rank in self.jobs[job].lost:
                self.sender.send(Lost(job, rank, how))

    def _wait_for_ends(self, silent: set[Key]) -> None:
        """Learn how these workers end: the kernel closes a killed process's connections before its parent can know of it."""
        end = time.monotonic() + GRACE
        while silent & set(self.pids.values()) and time.monotonic() < end:
            self._fail_dead()
            time.sleep(WINDOW)

    def _cut(self, open_: dict[Key, Connection]) -> str:
        """A sentence that names the lost workers, and those whose connections the same cut ends a little later."""
        left = {key: connection for key, connection in open_.items() if key not in self.lost}
        end = time.monotonic() + OTHERS_LOST
        while (left or self.pids) and time.monotonic() < end:  # a worker that closes its connection tells why as it ends
            for connection in wait(list(left.values()), WINDOW):
                key = next(k for k, c in left.items() if c is connection)
                try:
                    assert isinstance(connection, Connection)
                    connection.recv()  # what it says makes no difference any more
                except EOFError:
                    del left[key]
                except OSError:
                    del left[key]
                    self.lost.add(key)
            self._reap()
        return f"the management network is cut: it does not reach {self._named(self.lost)}"


def _send(connection: Connection, message: Start | Abort) -> None:
    """Send to a worker. One that cannot be reached is found out by what is received from it."""
    with suppress(OSError):
        connection.send(message)
