"""A worker's process: joins its job over the management network, trains, and tells the coordinator what happens."""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch.distributed as dist

from inalab.hosts.collective import AggregationError, Counters
from inalab.hosts.coordination import LOST, connect_worker
from inalab.hosts.gloo import explain
from inalab.hosts.groups import LaunchedGroups
from inalab.hosts.launch_files import LaunchFiles
from inalab.hosts.messages import Abort, Done, Failure, Hello, Start
from inalab.hosts.place import Place, serve
from inalab.hosts.torch_backend import InaProcessGroup, Options, joined
from inalab.hosts.training.asynchronous import AsynchronousTrainer
from inalab.hosts.training.pipeline import ASYNCHRONOUS, OF_TORCH
from inalab.hosts.training.trainer import Trainer, TrainingSettings

JOIN_PATIENCE = timedelta(seconds=30)


@dataclass(frozen=True)
class Rendezvous:
    """Where torch's processes meet, and the interface that Gloo binds to."""

    address: str
    port: int
    interface: str


@dataclass(frozen=True)
class WorkerSettings:
    """All that a worker is told: its place, where the workers meet, how to reach the coordinator, and what to train."""

    place: Place
    rendezvous: Rendezvous
    coordinator: tuple[str, int]
    secret: bytes
    training: TrainingSettings
    timeline: bool = False  # note when packets or steps are, where the scheme can
    folder: Path | None = None  # where workers form groups (hosts.groups) and note their calls, if the training has such


def run_worker(settings: WorkerSettings) -> int:
    """Train and report: Hello, Step by Step, then Done or a Failure (hosts.messages); the exit code is 0, 1 or LOST."""
    place = settings.place
    job, rank = place.membership.job, place.membership.rank
    if (connection := connect_worker(rank, settings.coordinator, settings.secret)) is None:
        return LOST

    pulse, before = _Pulse(connection), Counters()

    def counters() -> Counters:
        """Of all groups, since the start."""
        return _counted(group) - before

    def wait_for_start() -> None:
        nonlocal before
        connection.send(Hello(job, rank, trainer.elements, trainer.replica.data.sha256))
        with pulse.lock:
            received: Start | Abort = connection.recv()
        if isinstance(received, Abort):
            raise AggregationError(f"worker {rank} was not started: {received.reason}")
        before = _counted(group)
        time.sleep(max(0.0, received.at - time.monotonic()))

    try:
        trainer = _trainer(settings.training.pipeline)(settings.training, rank, place.membership.size)
        group = _meet(settings, pulse)
        timeline = group.channel.collective.note() if settings.timeline and group.channel else None
        for step in trainer.run(group.sum, counters, wait_for_start):
            connection.send(step)
        connection.send(Done(rank, trainer.digest(), trainer.counted, timeline.since(0.0) if timeline else []))
        return 0
    except EOFError:
        return 1  # the coordinator is gone
    except Exception as error:
        try:
            connection.send(_failure(error, place))
        except OSError:
            return LOST
        return 1
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
        connection.close()


def _counted(group: InaProcessGroup) -> Counters:
    """What the scheme has sent in all groups; for Gloo the segments of this host's connections."""
    return sum((each.counters() for each in joined), Counters()) if joined else group.counters()


class _Pulse:
    """Tells why to give up, if the coordinator has said so. Threads may ask."""

    def __init__(self, connection: Connection) -> None:
        self.connection, self.lock = connection, threading.Lock()
        self.reason: str | None = None

    def __call__(self) -> str | None:
        with self.lock:
            try:
                if self.reason is None and self.connection.poll():
                    received = self.connection.recv()
                    self.reason = received.reason if isinstance(received, Abort) else None
            except (EOFError, OSError):
                return "the coordinator cannot be reached"
            return self.reason


def _trainer(pipeline: str) -> type[Trainer]:
    if pipeline in OF_TORCH:
        from inalab.hosts.training.parallel import ParallelTrainer  # which loads much of PyTorch

        return ParallelTrainer
    return AsynchronousTrainer if pipeline == ASYNCHRONOUS else Trainer


def _failure(error: Exception, place: Place) -> Failure:
    """What the coordinator is sent of an error."""
    rank, job = place.membership.rank, place.membership.job
    if isinstance(error, AggregationError):
        return Failure(job, rank, str(error), error.incomplete, error.missing)
    if isinstance(error, OSError | ValueError):
        return Failure(job, rank, f"worker {rank}: {error}")
    if reason := explain(error, place):
        return Failure(job, rank, f"worker {rank}: job {job} cannot be completed: {reason}", incomplete=True)
    traceback.print_exception(error)
    return Failure(job, rank, f"worker {rank}: unexpected {type(error).__name__}: {error}")


def _meet(settings: WorkerSettings, pulse: Any) -> InaProcessGroup:
    """torch.distributed's default group, of all workers."""
    membership, meeting = settings.place.membership, settings.rendezvous
    os.environ["GLOO_SOCKET_IFNAME"] = meeting.interface
    rank, size = membership.rank, membership.size
    store = dist.TCPStore(  # type: ignore[attr-defined]
        meeting.address, meeting.port, size, is_master=rank == 0, timeout=JOIN_PATIENCE
    )
    options: Any = Options(settings.place, pulse)
    patience = timedelta(seconds=settings.place.settings.patience)
    if settings.folder:
        notes, groups = LaunchFiles(settings.folder), LaunchedGroups(settings.folder)
        options = Options(settings.place, pulse, notes, groups=groups, timeout=patience)
    elif settings.place.scheme.native:
        options = Options(settings.place, pulse, timeout=patience)
    dist.init_process_group("ina", store=store, rank=rank, world_size=size, pg_options=options)
    group = dist.group.WORLD
    assert isinstance(group, InaProcessGroup)
    return group


def run_server(place: Place, manages: bool = False) -> int:
    """Serve one group of workers after another, or manage it; SIGTERM ends it once none is being served. The exit code is 0."""
    rank, size = place.membership.rank, place.membership.size
    name = "scheduler" if manages else f"server{rank - size}" if rank >= size else f"server-of{rank}"
    Path("/proc/self/comm").write_text(name)
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: ended.append(number))
    serve(place, lambda: bool(ended), manages)
    return 0
