"""The workers of a job whose members change, as the coordinator sees them: as testbed.trial.workers, and they may be lost."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path

from inalab.hosts.member import MemberSettings, run_member
from inalab.hosts.messages import Failure, Forked, FromWorker, Hello, Lost, Order, Step
from inalab.hosts.place import Place
from inalab.hosts.training.checkpoint import Checkpoint, CheckpointFile
from inalab.hosts.training.elastic import JOB
from inalab.schemes.scheme import Admitted
from inalab.testbed.trial.errors import TrialError
from inalab.testbed.trial.job_run import JobRun, training
from inalab.testbed.trial.load import WINDOW
from inalab.testbed.trial.members import Members
from inalab.testbed.trial.rendezvous import Rendezvous
from inalab.testbed.trial.watch import Watch, ended
from inalab.testbed.trial.workers import JOIN_SECONDS, Key
from inalab.topologies import isolation
from inalab.topologies.network import Network

ENDS = 10.0  # seconds that workers may take to end once they have been told to; then they are killed


class ElasticWorkers:
    """Of the only job. `sender` gets what they say, `requested` tells whether a node's death was requested."""

    def __init__(
        self, run: JobRun, job: Admitted, fallback: Admitted | None, sender: Connection, requested: Callable[[str], bool]
    ) -> None:  # fmt: skip
        self.run, self.job, self.fallback, self.sender, self.requested = run, job, fallback, sender, requested
        self.members: Members
        self.checkpoint: Checkpoint | None = None
        self.pids: dict[int, Key] = {}  # that run
        self.excused: set[int] = set()  # ranks of those who were killed because of a fault of the schedule
        self.connections: dict[int, Connection] = {}  # by rank
        self.unknown: list[Connection] = []  # whose worker has not said hello

    def failed(self) -> bool:
        return bool(self.run.failures)

    def why(self) -> str:
        """Why they failed, in a sentence."""
        return self.run.why()

    def fork(self, network: Network, places: dict[str, Place], joining: Rendezvous, seed: int, folder: Path | None) -> None:
        """Have every worker begin on its host. `joining` is where it connects, and where others will, too."""
        self.network, self.joining, self.trained = network, joining, training(self.run.settings, seed)
        if (every := self.run.settings.checkpoint) is not None:
            self.checkpoint = CheckpointFile(Path(tempfile.mkdtemp(dir="/run", prefix="inalab-")) / "checkpoint", every)
        renews = self.checkpoint is not None
        self.members = Members(network.plan, self.job, self.fallback, network.controls, time.monotonic, self, renews)
        for rank in range(self.run.plan.size):
            self.begin(rank, newcomer=False)

    def begin(self, rank: int, newcomer: bool = True) -> None:
        """Begin the process of a worker; a newcomer gets the model from the others."""
        host = self.run.plan.hosts[rank]
        settings = MemberSettings(
            rank, self.run.plan.size, self.joining.address, self.joining.secret, self.trained, newcomer, self.checkpoint
        )
        pid = self.network.spawn(host.rank, partial(run_member, settings))
        self.pids[pid] = (JOB, rank)
        self.sender.send(Forked(JOB, rank, pid))

    def begin_again(self, rank: int) -> None:
        """Begin the process of a worker anew, which was killed and may not have ended yet."""
        for pid in self._pids_of(rank):
            del self.pids[pid]
            os.waitpid(pid, 0)
            self._lose(rank, f"worker {rank} was killed by SIGKILL")
        self.begin(rank)

    def join(self, joining: Rendezvous, watch: Watch, look: Callable[[], None] = lambda: None) -> None:
        """Wait until every worker has said hello. TrialError names those that did not."""
        self.watching = watch
        end = time.monotonic() + JOIN_SECONDS
        while missing := set(range(self.run.plan.size)) - self.members.greeted:
            self._take_in(WINDOW)
            look()
            if why := watch.trouble() or "; ".join(self._reap()) or (self.failed() and self.why()):
                raise TrialError(str(why))
            if time.monotonic() > end:
                raise TrialError(f"workers {', '.join(map(str, sorted(missing)))} did not join after {JOIN_SECONDS:g} s")

    def start(self, at: float) -> None:
        """Have the training begin then."""
        self.members.begin(at)

    def follow(self, look: Callable[[], None], due: Callable[[], float] = lambda: float("inf")) -> None:
        """Collect what the workers say until the last have left. Meanwhile `look`, often, and at the times that are `due`."""
        while not self.members.over and not self.failed():
            self._take_in(max(0.0, min(WINDOW, due() - time.monotonic())))
            self._reap()
            look()
            while self._take_in(0.0):
                pass
            self.members.look()
        end = time.monotonic() + ENDS
        while self.pids and not self.failed():
            self._take_in(WINDOW)
            self._reap()
            if time.monotonic() > end:  # their results are there: they hang, or are not reached
                for _, rank in self.pids.values():
                    self.expel(rank)
                end = float("inf")
        self.run.conclude(self.members.roster.current.members)

    def _take_in(self, seconds: float) -> bool:
        """What workers say within so many seconds, and who comes; whether there was something."""
        self.unknown += self.joining.look(0.0)
        ready = wait([*self.unknown, *self.connections.values()], seconds)
        for connection in ready:
            assert isinstance(connection, Connection)
            try:
                message: FromWorker = connection.recv()
            except (EOFError, OSError):
                self._forget(connection)
                continue
            if isinstance(message, Hello):
                self.unknown.remove(connection)
                self.connections[message.rank] = connection
            self.run.hear(message)
            self.sender.send(message)
            if not isinstance(message, Failure):
                self.members.hear(message)
        return bool(ready)

    def _forget(self, connection: Connection) -> None:
        """It has ended; how its worker did, its process tells."""
        if connection in self.unknown:
            self.unknown.remove(connection)
        self.connections = {rank: one for rank, one in self.connections.items() if one is not connection}

    def _reap(self) -> list[str]:
        """Take note of those whose process has ended, and not because it was told to; how."""
        dead: dict[int, str] = {}
        for pid, (_, rank) in list(self.pids.items()):
            if (code := ended(pid)) is not None:
                del self.pids[pid]
                if code or not self.members.over:
                    dead[rank] = f"worker {rank} {isolation.ending(code)}"
        for rank, how in dead.items():  # which may end and begin others' processes
            self._lose(rank, how)
        return list(dead.values())

    def _lose(self, rank: int, how: str) -> None:
        self.sender.send(Lost(JOB, rank, how))
        requested = self.requested(self.run.plan.hosts[rank].name) or rank in self.excused
        self.excused.discard(rank)
        if not requested and not self.members.over:
            self.run.lost[rank] = how
        self.members.lose(rank, how)

    # --- testbed.trial.members.Processes

    def tell(self, rank: int, order: Order) -> None:
        """An order. One that does not come through is of a worker that is found out to be lost."""
        with suppress(OSError, KeyError):
            self.connections[rank].send(order)

    def renew(self, ranks: Sequence[int]) -> None:
        """See testbed.trial.members.Processes."""
        time.sleep(WINDOW)  # the kernel closes a killed process's connections before its parent can know of it
        self._reap()
        killed = {pid: rank for pid, (_, rank) in self.pids.items() if rank in ranks}
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        for pid, rank in killed.items():
            os.waitpid(pid, 0)
            del self.pids[pid]
            self._hear_the_rest(rank)
            self.requested(self.run.plan.hosts[rank].name)  # a fault of this process is no other's
        for rank in killed.values():
            self.begin(rank)

    def _hear_the_rest(self, rank: int) -> None:
        """Take in the steps that a process has told of before it was killed: its checkpoint may be of later ones."""
        connection = self.connections.pop(rank, None)
        with suppress(EOFError, OSError):
            while connection is not None:
                if isinstance(message := connection.recv(), Step):
                    self.run.hear(message)
                    self.sender.send(message)

    def serve(self, job: Admitted, epoch: int) -> None:
        """New processes of all servers, which learn the epoch from the workers."""
        self.watching.replace(job)

    def expel(self, rank: int, requested: bool = False) -> None:
        """By SIGKILL."""
        if requested:
            self.excused.add(rank)
        for pid in self._pids_of(rank):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _pids_of(self, rank: int) -> list[int]:
        """The process of a worker that runs, if one does."""
        return [pid for pid, (_, its) in self.pids.items() if its == rank]
