"""The workers of a job whose members change, in virtual time; testbed.trial.elastic has them on real networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from inalab.hosts.drivers.virtual_time import VirtualTime
from inalab.hosts.messages import Alive, FromWorker, Halt, Join, Lost, Message, Order
from inalab.hosts.place import Place
from inalab.hosts.training.checkpoint import Saved
from inalab.hosts.training.elastic import JOB, ElasticTrainer, Orders
from inalab.hosts.training.trainer import TrainingSettings
from inalab.schemes.scheme import Admitted
from inalab.testbed.trial.job_run import JobRun
from inalab.testbed.trial.members import Members
from inalab.testbed.virtual.network import VirtualNetwork

LOOK = 0.1  # seconds between two looks at who does not answer
NOTICE = 0.001  # seconds in which a process's end is known


@dataclass
class _Worker:
    """The process of a worker that runs: its orders, and whether it has been killed."""

    rank: int
    orders: Orders
    killed: bool = False
    lost: bool = False  # and that is known


@dataclass
class _Checkpoint:
    """A hosts.training.checkpoint.Checkpoint; saving and loading take no time."""

    every: int
    saved: Saved | None = None

    def save(self, state: torch.Tensor, steps: int) -> None:
        self.saved = state, steps

    def load(self) -> Saved | None:
        return self.saved


class ElasticJob:
    """The only job of a trial. `report` gets what its workers say, and `serve` has a job's servers begin anew."""

    def __init__(
        self, network: VirtualNetwork, run: JobRun, job: Admitted, fallback: Admitted | None, trained: TrainingSettings,
        report: Callable[[Message], None], serve: Callable[[Admitted, int], None],
    ) -> None:  # fmt: skip
        self.network, self.run, self.job, self.trained, self.report, self.serve = network, run, job, trained, report, serve
        self.time: VirtualTime = network.time
        every = run.settings.checkpoint
        self.checkpoint = _Checkpoint(every) if every is not None else None
        self.members = Members(network.plan, job, fallback, network.controls, self.time.monotonic, self, every is not None)
        self.workers: dict[int, _Worker] = {}
        self.dying: dict[int, _Worker] = {}  # whose death on request is not known yet
        self.held: dict[int, list[Callable[[], None]]] = {}  # messages from and to those whom the management network does not reach

    def begin(self, at: float) -> None:
        """Have all workers begin, and train from then on."""
        for rank in range(self.job.plan.size):
            self.start(rank, newcomer=False)
        self.time.at(at - LOOK, self.members.begin, at)
        self.time.after(LOOK, self._look)

    def start(self, rank: int, newcomer: bool = True) -> None:
        """Begin the process of a worker; a newcomer gets the model from the others."""
        driver = self.network.hosts[self.job.plan.hosts[rank].name]
        worker = self.workers[rank] = _Worker(rank, Orders(driver))
        trainer = ElasticTrainer(self.trained, rank, self.job.plan.size, driver)

        def place_of(order: Join) -> Place:
            return replace(Place.loads(order.place), driver=driver)

        def work() -> None:
            for message in trainer.serve(worker.orders, place_of, newcomer, self.checkpoint):
                self.time.after(self.network.moment, self._hear, worker, message)

        driver.begin(work)

    def restart(self, rank: int) -> None:
        """It dies, if it runs, and another one begins."""
        if (worker := self._end(rank) or self.dying.pop(rank, None)) is not None:
            self._lose(worker)
        self.start(rank)

    def kill(self, rank: int) -> None:
        """A worker's process dies, on request."""
        if (worker := self._end(rank)) is not None:
            self.dying[rank] = worker
            self.time.after(NOTICE, self._lose, worker)

    def _end(self, rank: int) -> _Worker | None:
        """The worker whose process that has ended; None where there was none."""
        worker = self.workers.pop(rank, None)
        if worker is not None:
            worker.killed = True
            self.network.hosts[self.job.plan.hosts[rank].name].kill()
        return worker

    def _lose(self, worker: _Worker) -> None:
        if not worker.lost:
            worker.lost = True
            self.dying.pop(worker.rank, None)
            how = f"worker {worker.rank} was killed by SIGKILL"
            self.report(Lost(JOB, worker.rank, how))
            self.members.lose(worker.rank, how)

    def cut(self, rank: int, on: bool) -> None:
        """Whether the management network reaches a worker. What is sent meanwhile comes later."""
        if on:
            self.held.setdefault(rank, [])
        else:
            for message in self.held.pop(rank, []):
                self.time.after(0.0, message)

    def _hear(self, worker: _Worker, message: FromWorker) -> None:
        if worker.killed:
            return
        if worker.rank in self.held:
            self.held[worker.rank].append(lambda: self._hear(worker, message))
            return
        self.run.hear(message)
        self.report(message)
        self.members.hear(message)

    # --- testbed.trial.members.Processes

    def tell(self, rank: int, order: Order) -> None:
        """An order, over the management network."""
        if (worker := self.workers.get(rank)) is not None:
            self.time.after(self.network.moment, self._deliver, worker, order)

    def _deliver(self, worker: _Worker, order: Order) -> None:
        if worker.rank in self.held:
            self.held[worker.rank].append(lambda: self._deliver(worker, order))
        elif not worker.killed:
            worker.orders.take(order)
            if isinstance(order, Halt) and not self._hangs(worker.rank):
                self.time.after(self.network.moment, self._hear, worker, Alive(worker.rank, order.generation))

    def expel(self, rank: int, requested: bool = False) -> None:
        """By SIGKILL."""
        requested = requested or self._hangs(rank)
        if (worker := self._end(rank)) is not None:
            worker.lost = True
            how = f"worker {rank} was killed by SIGKILL"
            self.report(Lost(JOB, rank, how))
            if not requested:
                self.run.lost[rank] = how

    def renew(self, ranks: Sequence[int]) -> None:
        """See testbed.trial.members.Processes."""
        ended = [worker for rank in ranks if (worker := self._end(rank)) is not None]
        for worker in ended:
            worker.lost = True
            self.start(worker.rank)

    def _hangs(self, rank: int) -> bool:
        """On request."""
        return any(process.stopped for process in self.network.hosts[self.job.plan.hosts[rank].name].processes)

    def _look(self) -> None:
        self.members.look()
        if not self.members.over:
            self.time.after(LOOK, self._look)
