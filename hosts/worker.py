"""A worker's process: joins its job over the management network, trains, and tells the coordinator what happens."""

from __future__ import annotations

import time
import traceback
from dataclasses import asdict, dataclass
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any

from hosts.collective import AggregationError, Collective
from hosts.schemes import Place, join
from hosts.training import Trainer, TrainingSettings


@dataclass(frozen=True)
class WorkerSettings:
    """All that a worker is told: its place, how to reach the coordinator, and what to train."""

    place: Place
    coordinator: tuple[str, int]
    secret: bytes
    training: TrainingSettings


def run_worker(settings: WorkerSettings) -> int:
    """Train and report. Messages to the coordinator: hello, step…, then done or error; the exit code is 0 or 1."""
    rank = settings.place.membership.rank
    Path("/proc/self/comm").write_text(f"worker{rank}")  # what ps and top call it
    connection: Connection = Client(settings.coordinator, authkey=settings.secret)
    collective: Collective | None = None

    def pulse() -> str | None:
        """Why to give up, if the coordinator said so."""
        if connection.poll():
            kind, reason = connection.recv()
            return str(reason) if kind == "abort" else None
        return None

    def wait_for_start() -> None:
        connection.send(("hello", {"rank": rank, "elements": trainer.elements, "data": trainer.data.sha256}))
        kind, value = connection.recv()
        if kind == "abort":
            raise AggregationError(f"worker {rank} was not started: {value}")
        time.sleep(max(0.0, value - time.monotonic()))

    try:
        trainer = Trainer(settings.training, rank, settings.place.membership.size)
        collective = join(settings.place, pulse)
        for record in trainer.run(collective, wait_for_start):
            connection.send(("step", record))
        done: dict[str, Any] = {"rank": rank, "digest": trainer.digest(), "counters": asdict(collective.counters)}
        connection.send(("done", done))
        return 0
    except (AggregationError, OSError, ValueError) as error:
        connection.send(("error", {"rank": rank, "message": str(error)}))
        return 1
    except EOFError:
        return 1  # the coordinator is gone
    except Exception as error:
        traceback.print_exc()
        connection.send(("error", {"rank": rank, "message": f"worker {rank}: unexpected {type(error).__name__}: {error}"}))
        return 1
    finally:
        if collective is not None:
            collective.close()
        connection.close()
