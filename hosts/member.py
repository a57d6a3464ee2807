"""The process of a worker in a job whose members change: it trains as its orders say (hosts.training.elastic)."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from inalab.hosts.collective import AggregationError
from inalab.hosts.coordination import LONG_SILENCE, LOST, connect
from inalab.hosts.drivers.sockets import SOCKETS
from inalab.hosts.messages import Failure
from inalab.hosts.place import Place
from inalab.hosts.training.elastic import JOB, ElasticTrainer, Orders
from inalab.hosts.training.trainer import TrainingSettings


@dataclass(frozen=True)
class MemberSettings:
    """All that a worker is told: who it is, how to reach the coordinator, what to train, and whether it begins without a model."""

    rank: int
    workers: int
    coordinator: tuple[str, int]
    secret: bytes
    training: TrainingSettings
    newcomer: bool = False


def run_member(settings: MemberSettings) -> int:
    """Train and report, until the coordinator says to leave; the exit code is 0, 1 or LOST (hosts.coordination)."""
    rank = settings.rank
    Path("/proc/self/comm").write_text(f"worker{rank}")  # what ps and top call it
    try:
        connection = connect(settings.coordinator, settings.secret, LONG_SILENCE)
    except OSError as error:
        print(f"inalab: worker {rank} does not reach the coordinator: {error}", file=sys.stderr)
        return LOST
    orders = Orders(SOCKETS)
    trainer = ElasticTrainer(settings.training, rank, settings.workers)
    threading.Thread(target=_receive, args=(connection, orders), name="orders", daemon=True).start()
    try:
        for message in trainer.serve(orders, lambda order: Place.loads(order.place), settings.newcomer):
            try:
                connection.send(message)
            except OSError:
                return LOST
        return 0
    except Exception as error:
        text = str(error) if isinstance(error, AggregationError) else f"unexpected {type(error).__name__}: {error}"
        traceback.print_exception(error)
        connection.send(Failure(JOB, rank, f"worker {rank}: {text}"))
        return 1
    finally:
        connection.close()


def _receive(connection: Connection, orders: Orders) -> None:
    """Take the orders that come. Without a coordinator there is nothing more to do."""
    try:
        while True:
            orders.take(connection.recv())
    except OSError:
        os._exit(LOST)
    except EOFError:
        os._exit(1)
