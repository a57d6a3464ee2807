"""Lab 7: sums by hosts alone, and what each of their links carries."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.testbed.lab.lab import Failure, Lab, Share, by_degrees
from inalab.testbed.lab.network import OVERHEAD, Link, Network
from inalab.testbed.lab.student import expect_array
from inalab.testbed.lab.workbench import Workbench

lab = Lab("Without a switch", language="Python", hours=5, files=["allreduce.py"], given=["node.py"])

LINK = Link(rate=100.0, delay=5.0)
HEADERS = 26  # bytes of a packet that are not the array's, as node.py makes them
LARGEST_PART = 1400  # bytes of the array in a packet
Tensor = NDArray[np.float32]


class Forwarding:
    """A switch that forwards by the last byte of the address: host h is at port h."""

    def send(self, port: int, packet: bytes) -> list[tuple[int, bytes]]:
        return [(packet[5], packet)]


def tensors(workers: int, length: int) -> list[Tensor]:
    """Whole numbers, whose sums are exact in every order; drawn anew each time, so that no host can know them but from packets."""
    draw = np.random.default_rng()
    return [draw.integers(-1000, 1001, length).astype(np.float32) for _ in range(workers)]


def run(
    bench: Workbench, parts: Sequence[Tensor], worker: str, server: str | None = None, servers: int = 0, **given: Any
) -> Network:
    """Let the student's hosts sum tensors; each worker must have the sum."""
    network = Network()
    starts: dict[str, Mapping[str, Any]] = {}
    hosts = {f"h{n}": bench.host(worker, f"h{n}") for n in range(len(parts))}
    for n, part in enumerate(parts):
        starts[f"h{n}"] = {"number": n, "workers": len(parts), "tensor": part, **given}
    for n in range(len(parts), len(parts) + servers):
        assert server is not None
        hosts[f"h{n}"] = bench.host(server, f"h{n}")
        starts[f"h{n}"] = {"number": n, "workers": len(parts), **given}
    network.star("s1", Forwarding(), hosts, LINK, first_port=0)
    network.run(starts)
    expected = np.sum(parts, axis=0)
    for n in range(len(parts)):
        found = expect_array(network.results[f"h{n}"], len(expected), "f", f"{worker} {n}'s finish()")
        wrong = np.flatnonzero(found != expected)
        if len(wrong):
            at = int(wrong[0])
            values = " + ".join(f"{part[at]:g}" for part in parts)
            raise Failure(
                f"{worker} {n} has a wrong sum: {len(wrong)} of {len(expected)} elements differ",
                f"The first is element {at}: {values} = {expected[at]:g}, and the worker has {found[at]:g}",
            )
        expect_traffic(network, f"h{n}", 4 * len(expected) if len(parts) > 1 else 0)
    return network


def expect_traffic(network: Network, host: str, octets: int) -> None:
    """However hosts sum, what a worker has must leave it, and what the others have must reach it before it has finished."""
    for way, found in (("sends", carried(network, host)[0]), ("receives", network.arrived.get(host, 0))):
        if found < octets:
            raise Failure(
                f"{host} finishes with the sum of tensors of {octets} bytes, and {way} {found}: packets must bring the sum"
            )


def carried(network: Network, host: str) -> tuple[int, int]:
    """Bytes that a host has sent and received."""
    return network.bytes_between(host, "s1"), network.bytes_between("s1", host)


def on_wire(octets: float) -> float:
    """Bytes of an array with the headers of the packets that carry it."""
    return octets * (1 + HEADERS / LARGEST_PART)


def sums(bench: Workbench, shapes: Sequence[tuple[int, int]], worker: str, server: str | None = None, servers: int = 0) -> None:
    for workers, length in shapes:
        try:
            run(bench, tensors(workers, length), worker, server, servers)
        except Failure as failure:
            raise Failure(f"{workers} workers, {length} elements: {failure}", failure.trace) from None


def expect_bytes(network: Network, host: str, octets: float, formula: str) -> None:
    """A host's link must carry so much in each direction, and at most a twentieth more or less."""
    for way, found in zip(("sends", "receives"), carried(network, host), strict=True):
        if abs(found - on_wire(octets)) > 0.05 * on_wire(octets) + 200:
            raise Failure(f"{host} {way} {found} bytes; {formula} = {on_wire(octets):.0f}, with the packets' headers")


@lab.task("the ring sums", points=20)
def ring(bench: Workbench) -> None:
    sums(bench, [(2, 1000), (3, 3001), (5, 17), (6, 7000)], "RingWorker")


@lab.task("the ring's links carry 2(n - 1)/n of the tensor", points=15)
def ring_bytes(bench: Workbench) -> None:
    for workers in (2, 4, 8):
        network = run(bench, tensors(workers, 28_000), "RingWorker")
        for n in range(workers):
            expect_bytes(
                network, f"h{n}", 2 * (workers - 1) / workers * 4 * 28_000, f"2 · {workers - 1}/{workers} of the tensor's bytes"
            )
        for source in range(workers):  # and to the next alone
            packets = network.directions[f"h{source}", 0].packets
            if packets > 2 * (workers - 1) * (28_000 // workers // 350 + 2):
                raise Failure(f"h{source} sends {packets} packets, far more than a ring needs")


@lab.task("the parameter server sums", points=15)
def server(bench: Workbench) -> None:
    sums(bench, [(1, 100), (2, 1000), (5, 3001), (8, 17)], "ServerWorker", "Server", servers=1)


@lab.task("the server's link carries the tensor n times", points=5)
def server_bytes(bench: Workbench) -> None:
    network = run(bench, tensors(4, 14_000), "ServerWorker", "Server", servers=1)
    expect_bytes(network, "h4", 4 * 4 * 14_000, "4 times the tensor's bytes")
    expect_bytes(network, "h1", 4 * 14_000, "the tensor's bytes")


def right_shares(n: int, k: int) -> list[float]:
    """BytePS's formula."""
    d = n * n + k * n - 2 * k
    return [(n - k) / d] * n + [2 * (n - 1) / d] * k


@lab.task("BytePS's shares", points=10)
def shares(bench: Workbench) -> None:
    module = bench.module()
    drawn = [(workers, secrets.randbelow(workers)) for workers in (5, 7, 11, 13)]
    for workers, spares in ((4, 0), (4, 1), (4, 2), (4, 4), (8, 3), (2, 1), (3, 3), *drawn):
        found, right = module.call("shares", workers, spares), right_shares(workers, spares)
        if not isinstance(found, list) or not all(isinstance(share, (int, float)) for share in found):
            raise Failure(f"shares() must return a list of numbers, and returns {type(found).__name__}")
        if len(found) != len(right) or not all(abs(a - b) <= 1e-6 for a, b in zip(found, right, strict=True)):
            wording = ", ".join(f"{share:.4f}" for share in right)
            raise Failure(
                f"{workers} workers, {spares} spare hosts: with the shares [{wording}] all links carry the same; "
                f"shares() returns [{', '.join(f'{share:.4f}' for share in found)}]"
            )


@lab.task("the split sums", points=15)
def split(bench: Workbench) -> None:
    for spares in (0, 1, 3):
        for workers, length in ((3, 5000), (4, 101)):
            try:
                run(bench, tensors(workers, length), "SplitWorker", "SplitServer", spares, spares=spares)
            except Failure as failure:
                wording = f"{workers} workers, {spares} spare hosts, {length} elements: {failure}"
                raise Failure(wording, failure.trace) from None


def optimum(workers: int, spares: int, length: int) -> float:
    """Microseconds that the busiest link takes with BytePS's shares."""
    n, k = workers, spares
    octets = 2 * n * (n - 1) / (n * n + k * n - 2 * k) * 4 * length
    return 8 * octets * (1 + (HEADERS + OVERHEAD) / LARGEST_PART) / LINK.rate


@lab.task("the split's links are all busy, and finish together", points=20)
def split_time(bench: Workbench) -> Share:
    worst, where = 0.0, 0
    for spares in (0, 2, 4):
        network = run(bench, tensors(4, 56_000), "SplitWorker", "SplitServer", spares, spares=spares)
        octets = 2 * 4 * 3 / (16 + 4 * spares - 2 * spares) * 4 * 56_000
        if spares < 4:
            expect_bytes(network, "h0", octets, f"with {spares} spare hosts, {octets / 4 / 56_000:.2f} times the tensor's bytes")
        if spares:
            expect_bytes(network, "h4", octets, f"with {spares} spare hosts, {octets / 4 / 56_000:.2f} times the tensor's bytes")
        ratio = max(network.finished[f"h{n}"] for n in range(4)) / optimum(4, spares, 56_000)
        if ratio > worst:
            worst, where = ratio, spares
    share = by_degrees(worst, full=1.4, none=2.3)
    return Share(share, f"{worst:.2f} times the busiest link's time with {where} spare hosts; full points up to 1.40")
