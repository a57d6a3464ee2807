"""The scheme of docs/how-to/extending.md over loopback, where packets are lost."""

from __future__ import annotations

import os
import random
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from inalab.hosts.plugins import load_module

PAGE = Path("docs/how-to/extending.md")


@pytest.fixture
def star(tmp_path: Path) -> ModuleType:
    code = re.search(r"Save it as `star\.py`:\n\n```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert code
    (tmp_path / "star.py").write_text(code[1])
    return load_module(str(tmp_path / "star.py"))


class Barrier:
    """As Gloo's: workers wait for one another there, while their schemes attend."""

    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size)

    def wait(self, worker: Any) -> None:
        over = os.eventfd(0)

        def meet() -> None:
            try:
                self.barrier.wait(20)
            finally:
                os.eventfd_write(over, 1)

        thread = threading.Thread(target=meet)
        thread.start()
        worker.attend(over)
        thread.join()
        os.close(over)
        assert not self.barrier.broken, "a worker still waits for its sum"


def test_sums_are_right_under_loss_also_between_other_collectives(star: ModuleType) -> None:
    size, sums = 4, 12
    peers = [f"127.0.0.{10 + rank}" for rank in range(size)]
    barrier = Barrier(size)
    rng = np.random.default_rng(1)
    parts = [[rng.integers(-1000, 1000, 600 + n).astype((np.float32, np.int32)[n % 2]) for n in range(sums)] for _ in range(size)]

    def work(rank: int) -> list[Any]:
        draw = random.Random(rank)
        place = SimpleNamespace(
            membership=SimpleNamespace(rank=rank, size=size, job=0), peers=peers, settings=SimpleNamespace(patience=15.0)
        )
        worker = star.StarWorker(place, epoch=7)
        worker.timer = star.RetransmissionTimer(initial=0.05, shortest=0.02)
        send = worker._send
        worker._send = lambda to, packet: send(to, packet) if draw.random() > 0.1 else None
        barrier.wait(worker)
        totals = []
        for n in range(sums):
            totals.append(worker.all_reduce(parts[rank][n].copy()))
            barrier.wait(worker)  # nobody starts another sum before all have this one
        worker.close()
        return totals

    with ThreadPoolExecutor(size) as pool:
        found = list(pool.map(work, range(size)))
    for n in range(sums):
        expected = np.sum([parts[rank][n] for rank in range(size)], axis=0)
        assert all(np.array_equal(totals[n], expected) for totals in found)
