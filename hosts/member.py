"""The process of a worker in a job whose members change: it trains as its orders say (hosts.training.elastic)."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection

from inalab.hosts.collective import AggregationError
from inalab.hosts.coordination import LONG_SILENCE, LOST, connect_worker
from inalab.hosts.drivers.sockets import SOCKETS
from inalab.hosts.messages import Alive, Failure, FromWorker, Halt
from inalab.hosts.place import Place
from inalab.hosts.training.checkpoint import Checkpoint
from inalab.hosts.training.elastic import JOB, ElasticTrainer, Orders
from inalab.hosts.training.trainer import TrainingSettings


@dataclass(frozen=True)
class MemberSettings:
    """All that a worker has to know: who it is, how to reach the coordinator, what to train, whether it begins without a model."""

    rank: int
    workers: int
    coordinator: tuple[str, int]
    secret: bytes
    training: TrainingSettings
    newcomer: bool = False
    checkpoint: Checkpoint | None = None


def run_member(settings: MemberSettings) -> int:
    """Train and report, until the coordinator says to leave; the exit code is 0, 1 or LOST (hosts.coordination)."""
    rank = settings.rank
    if (connection := connect_worker(rank, settings.coordinator, settings.secret, LONG_SILENCE)) is None:
        return LOST
    orders, sending = Orders(SOCKETS), threading.Lock()

    def send(message: FromWorker) -> None:
        with sending:
            connection.send(message)

    trainer = ElasticTrainer(settings.training, rank, settings.workers)
    threading.Thread(target=_receive, args=(connection, orders, rank, send), name="orders", daemon=True).start()
    try:
        for message in trainer.serve(orders, lambda order: Place.loads(order.place), settings.newcomer, settings.checkpoint):
            try:
                send(message)
            except OSError:
                return LOST
        return 0
    except Exception as error:
        text = str(error) if isinstance(error, AggregationError) else f"unexpected {type(error).__name__}: {error}"
        traceback.print_exception(error)
        send(Failure(JOB, rank, f"worker {rank}: {text}"))
        return 1
    finally:
        connection.close()


def _receive(connection: Connection, orders: Orders, rank: int, send: Callable[[FromWorker], None]) -> None:
    """Take the orders that come, and confirm at once those to halt. Without a coordinator there is nothing more to do."""
    try:
        while True:
            orders.take(order := connection.recv())
            if isinstance(order, Halt):
                send(Alive(rank, order.generation))
    except OSError:
        os._exit(LOST)
    except EOFError:
        os._exit(1)
