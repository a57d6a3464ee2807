"""BytePS's workers and services together, over loopback."""

from __future__ import annotations

import math
import os
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from inalab.hosts.byteps import wire
from inalab.hosts.byteps.admission import FIFO, PRIORITY
from inalab.hosts.byteps.assignment import ByBytes, ByHash, shares
from inalab.hosts.byteps.service import Service
from inalab.hosts.byteps.worker import BytePS
from inalab.hosts.collective import AggregationError, Label, Membership
from inalab.hosts.tcp.group import Group
from inalab.hosts.tcp.meeting import GREETING

hosts_used = count()


class Hosts:
    """Services and workers of a group, each on a loopback address of its own."""

    def __init__(
        self, n: int, k: int = 0, size: int = 256, order: str = PRIORITY, credit: int = 4096, patience: float = 20.0, **more: Any
    ):
        first = next(hosts_used) * 64
        self.n, self.k, self.epoch = n, k, 1
        pid = os.getpid()
        self.peers = [f"127.{pid >> 8 & 127 | 64}.{pid & 255}.{(first + i) % 250 + 1}" for i in range(n + k)]
        self.options: dict[str, Any] = {"order": order, "credit": credit}
        self.watched: dict[str, Any] = {"patience": patience} | more
        self.assignment = lambda: ByBytes(shares(n, [1.0] * (n + k)), size)
        self.ended: dict[int, str] = {}
        self.over = False
        self.services: dict[int, Service] = {}
        self.threads = [threading.Thread(target=self._serve, args=(rank,), daemon=True) for rank in range(n + k)]

    def membership(self, rank: int) -> Membership:
        return Membership(3, rank, self.n, [list(range(self.n))])

    def _serve(self, rank: int) -> None:
        try:
            service = Service.of_next_group(Group(self.membership(rank), self.peers, patience=10.0), lambda: self.over)
            if service is None:
                return
            self.services[rank] = service
            try:
                service.serve()
                self.ended[rank] = ""
            finally:
                service.close()
        except AggregationError as error:
            self.ended[rank] = str(error)
        except (OSError, ValueError) as error:  # closed under its feet
            self.ended[rank] = f"{type(error).__name__}: {error}"

    @contextmanager
    def workers(self) -> Iterator[list[BytePS]]:
        for thread in self.threads:
            thread.start()
        with ThreadPoolExecutor(self.n) as pool:
            made = list(pool.map(self.worker, range(self.n)))
        try:
            yield made
        finally:
            for worker in made:
                with suppress(OSError, ValueError):
                    worker.close()
            self.over = True
            for thread in self.threads:
                thread.join(20)

    def worker(self, rank: int) -> BytePS:
        return BytePS(Group(self.membership(rank), self.peers, self.epoch, **self.watched), self.assignment(), **self.options)


def sums(workers: list[BytePS], tensors: list[list[NDArray[Any]]], labels: list[Label] | None = None) -> list[list[NDArray[Any]]]:
    """All tensors of every worker, started at once; the sums by worker."""

    def work(rank: int) -> list[NDArray[Any]]:
        started = [workers[rank].start(x, label=(labels or [Label()] * 99)[i]) for i, x in enumerate(tensors[rank])]
        for each in started:
            workers[rank].advance(each)
        return [each.total for each in started]  # type: ignore[misc]

    with ThreadPoolExecutor(len(workers)) as pool:
        return list(pool.map(work, range(len(workers))))


def in_order(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """The sum of floats in the stated order: ((x0 + x1) + x2) + …"""
    total = parts[0].copy()
    for part in parts[1:]:
        total = total + part
    return total


@pytest.mark.parametrize(("n", "k"), [(1, 0), (2, 0), (3, 1), (4, 4)])
@pytest.mark.parametrize("size", [4, 256, 100_000])
def test_sums_are_those_of_the_stated_order_to_the_bit(n: int, k: int, size: int) -> None:
    rng = np.random.default_rng(n * 100 + k)
    shapes = [(1,), (777,), (3, 5, 7), (64,)]
    tensors = [
        [(rng.standard_normal(shape) * 10.0 ** rng.integers(-9, 9)).astype(np.float32) for shape in shapes] for _ in range(n)
    ]
    for mine in tensors:
        mine.append(rng.integers(-(2**31), 2**31, 99, np.int64).astype(np.int32))
    with Hosts(n, k, size, credit=max(1024, size)).workers() as workers:
        found = sums(workers, tensors)
    for i in range(5):
        expected = in_order([mine[i] for mine in tensors])
        for rank in range(n):
            assert found[rank][i].dtype == expected.dtype and found[rank][i].shape == expected.shape
            assert np.array_equal(found[rank][i], expected)


def test_the_front_layer_overtakes_what_began_before_it() -> None:
    over: list[str] = []
    labels = [Label("back", 1), Label("front", 0)]
    with Hosts(2, size=4096, credit=8192).workers() as workers:

        def work(worker: BytePS) -> None:
            note = lambda s: over.append(s.label.name)  # noqa: E731
            started = [
                worker.start(np.ones(n, np.float32), label=label, then=note)
                for n, label in zip((400_000, 400), labels, strict=True)
            ]
            for each in started:
                worker.advance(each)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(work, workers))
    assert over == ["front", "front", "back", "back"]


def test_in_order_of_arrival_it_does_not() -> None:
    over: list[str] = []
    with Hosts(2, size=4096, credit=8192, order=FIFO).workers() as workers:

        def work(worker: BytePS) -> None:
            note = lambda s: over.append(s.label.name)  # noqa: E731
            started = [
                worker.start(np.ones(4000, np.float32), label=Label(name, p), then=note) for name, p in (("back", 1), ("front", 0))
            ]
            for each in started:
                worker.advance(each)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(work, workers))
    assert over[0] == "back" and over[-1] == "front"


def failures(workers: list[BytePS], tensors: list[NDArray[Any]]) -> list[str]:
    """How an all-reduce of each worker's tensor fails, by rank; what does not fail is empty."""

    def work(rank: int) -> str:
        try:
            workers[rank].all_reduce(tensors[rank])
        except AggregationError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(len(workers)) as pool:
        return list(pool.map(work, range(len(tensors))))


def test_different_tensors_are_told_to_all() -> None:
    with Hosts(3).workers() as workers:
        wording = failures(workers, [np.ones(10, np.float32), np.ones(11, np.float32), np.ones(10, np.float32)])
    unlike = "the workers sum different tensors: "
    assert all(f"worker {rank}: job 3 cannot be completed: " in text for rank, text in enumerate(wording)), wording
    assert all(unlike in text for text in wording), wording


def test_tensors_that_differ_in_their_names_alone_are_told_apart() -> None:
    with Hosts(2).workers() as workers:

        def work(rank: int) -> str:
            with pytest.raises(AggregationError) as caught:
                workers[rank].advance(workers[rank].start(np.ones(10, np.float32), label=Label(f"layer{rank}")))
            return str(caught.value)

        with ThreadPoolExecutor(2) as pool:
            wording = list(pool.map(work, range(2)))
    unlike = "the workers sum different tensors: 10 elements of float32 (layer0) on worker 0; 10 elements of float32 (layer1) on worker 1"
    assert all(unlike in text for text in wording), wording


def test_a_longer_tensor_whose_first_partitions_are_alike_is_another_one() -> None:
    """By hash all partitions of a shorter tensor meet the first ones of the longer: a sum of both would be wrong without a word."""
    hosts = Hosts(2)
    hosts.assignment = lambda: ByHash(2, 0, 256)  # type: ignore[assignment,return-value]
    with hosts.workers() as workers:
        wording = failures(workers, [np.ones(64 * 2, np.float32), np.ones(64 * 3, np.float32)])
    assert all("the workers sum different tensors: " in text for text in wording), wording


def test_a_worker_that_dies_while_it_waits_for_a_slower_one_is_named() -> None:
    hosts = Hosts(3)
    with hosts.workers() as workers:
        started = workers[2].start(np.ones(500, np.float32))
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(failures, workers[:2][::-1][:1], [np.ones(500, np.float32)])
            for _ in range(20):  # its parts leave, and those of worker 0 have not come
                for service, channel in workers[2].channels.of.items():
                    workers[2]._serve(service, 0 if channel.idle else 2)
                time.sleep(0.01)
            assert started.total is None
            workers[2].close()
            assert "worker 2 is gone" in waiting.result()[0]
        wording = failures(workers[:1], [np.ones(500, np.float32)])
    assert "worker 2" in wording[0] or "gone" in wording[0], wording
    assert all("KeyError" not in ended for ended in hosts.ended.values())


def test_a_worker_that_leaves_is_named_by_all_others() -> None:
    hosts = Hosts(3, 1)
    with hosts.workers() as workers:
        sums(workers, [[np.ones(500, np.float32)]] * 3)
        workers[2].close()
        wording = failures(workers, [np.ones(500, np.float32)] * 2)
    assert all("worker 2" in text and ("left" in text or "gone" in text) for text in wording), wording


def test_a_service_that_ends_is_named_by_all_workers() -> None:
    hosts = Hosts(2, 1)
    with hosts.workers() as workers:
        sums(workers, [[np.ones(500, np.float32)]] * 2)
        for channel in hosts.services[2].channels.of.values():
            channel.connection.socket.shutdown(socket.SHUT_RDWR)
        wording = failures(workers, [np.ones(500, np.float32)] * 2)
    assert all("server 0 is gone" in text for text in wording), wording


def test_who_says_nothing_is_named_after_the_patience() -> None:
    with Hosts(3, patience=1.0).workers() as workers:
        wording = failures(workers, [np.ones(500, np.float32)] * 2)
    assert all("waits for worker 2, for 1 s" in text for text in wording), wording


def test_somebody_who_watches_over_the_workers_is_listened_to() -> None:
    hosts = Hosts(2, pulse=lambda: "worker 1 was killed by SIGKILL")
    with hosts.workers() as workers:
        assert "worker 1 was killed by SIGKILL" in failures(workers, [np.ones(500, np.float32)])[0]


def test_a_service_that_never_comes_is_named() -> None:
    hosts = Hosts(1, 1, patience=0.5)
    with pytest.raises(AggregationError, match="worker 0: job 3 cannot be completed: the service of worker 0 cannot be reached"):
        hosts.worker(0)


def test_a_worker_that_talks_nonsense_ends_its_group_by_name() -> None:
    hosts = Hosts(2)
    for thread in hosts.threads:
        thread.start()
    made = [socket.create_connection((peer, wire.TCP_PORT), 5, (hosts.peers[1], 0)) for peer in waited_for(hosts.peers)]
    for each in made:
        each.sendall(GREETING.pack(1, hosts.epoch))
        each.sendall(b"\xff" * 64)
    worker = hosts.worker(0)
    with pytest.raises(AggregationError, match="worker 1 sent an invalid message: no message begins with ff"):
        worker.all_reduce(np.ones(500, np.float32))
    worker.close()
    hosts.over = True
    for each in made:
        each.close()


def waited_for(peers: list[str]) -> list[str]:
    """The same, once each listens."""
    end = time.monotonic() + 10
    for peer in peers:
        while time.monotonic() < end:
            with suppress(OSError), socket.create_connection((peer, wire.TCP_PORT), 1):
                break
            time.sleep(0.01)
    return peers


def test_links_carry_the_closed_form() -> None:
    """What worker 0's services and pushes bring over its link, for k = 0 … n, in bytes of the tensor."""
    n, elements = 4, 40_000
    for k in range(n + 1):
        hosts = Hosts(n, k, size=1000)
        with hosts.workers() as workers:
            sums(workers, [[np.ones(elements, np.float32)]] * n)
            sent = [worker.counters.bytes_sent - worker.channels[rank].sent for rank, worker in enumerate(workers)]
            for rank in range(n):
                sent[rank] += sum(c.sent for other, c in hosts.services[rank].channels.of.items() if other != rank)
        d = n * n + k * n - 2 * k
        expected = 2 * n * (n - 1) / d * 4 * elements
        assert sent == pytest.approx([expected] * n, rel=0.06)
        assert math.isclose(sum(sent) / n, expected, rel_tol=0.05)
