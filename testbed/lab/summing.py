"""Workers that sum a tensor through a switch: the network they are on, and whether all of them have the sum."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.testbed.lab.aggregation import LANES, RESULT, SWITCH, UPDATE, Update, group, read, write
from inalab.testbed.lab.lab import Failure
from inalab.testbed.lab.network import OVERHEAD, Device, HostOn, Link, Loss, Network, Packet
from inalab.testbed.lab.workbench import Workbench

Tensor = NDArray[np.int32]
FRAME = 14 + 10 + 4 * LANES  # bytes of a packet
LINK = Link(rate=100.0, delay=50.0)
WIRE_TIME = 8 * (FRAME + OVERHEAD) / LINK.rate  # microseconds that a packet takes on a link
ROUND_TRIP = 2 * (WIRE_TIME + LINK.delay)  # to the switch and back, through empty links


def tensors(workers: int, length: int, seed: int | None = None) -> list[Tensor]:
    """A tensor for each worker, of integers from -10^6 to 10^6.

    Without a seed they are drawn anew each time, so that no worker can know the others' but from packets.
    """
    draw = np.random.default_rng(seed)
    return [draw.integers(-1_000_000, 1_000_001, length, dtype=np.int32) for _ in range(workers)]


def switch_commands(workers: int) -> list[str]:
    """Worker w is at port w + 1, and all are in multicast group 1."""
    return [f"table_set_default job set_workers {workers}", *group(range(1, workers + 1))]


def summed(
    bench: Workbench,
    device: Device,
    parts: Sequence[Tensor],
    loss: Loss | None = None,
    **given: Any,
) -> Network:
    """Let the student's workers sum tensors through a switch, and see that each of them has the sum, and from the switch.

    `given` is what start() gets beside number, workers and tensor. Returns the network, with its times. Failure if a sum is wrong.
    """
    network = Network(loss=loss)
    total = total_of(parts)
    hosts = {f"h{n + 1}": Witness(bench.host("Worker", f"h{n + 1}"), part, total) for n, part in enumerate(parts)}
    network.star("s1", device, hosts, LINK)
    starts = {f"h{n + 1}": {"number": n, "workers": len(parts), "tensor": part, **given} for n, part in enumerate(parts)}
    try:
        network.run(starts)
        check_sums(network.results, parts)
        for name, witness in hosts.items():
            witness.check(name)
    except Failure as failure:
        raise Failure(str(failure), "\n".join(filter(None, [failure.trace, shown(network.recent)]))) from None
    return network


class Witness:
    """A worker and what it has on its link: which vectors of its own it has sent, and which sums it has received, when it finishes.

    Whoever knows the sum by other means, or lets the workers add, has done something else than the lab is about.
    """

    def __init__(self, host: HostOn, part: Tensor, total: Tensor) -> None:
        self.host, self.part, self.total = host, part, total
        self.unsent = set(range(-(-len(part) // LANES)))
        self.missing = set(self.unsent)
        self.left: tuple[int, int] | None = None  # of both, when it finished

    def start(self, now: float, **given: Any) -> list[tuple[str, Any]]:
        return self._seen(self.host.start(now, **given))

    def receive(self, now: float, packet: bytes) -> list[tuple[str, Any]]:
        _take_off(self.missing, packet, RESULT, self.total)
        return self._seen(self.host.receive(now, packet))

    def expire(self, now: float, timer: str) -> list[tuple[str, Any]]:
        return self._seen(self.host.expire(now, timer))

    def _seen(self, calls: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        for kind, value in calls:
            if kind == "send" and isinstance(value, bytes):
                _take_off(self.unsent, value, UPDATE, self.part)
            elif kind == "finish" and self.left is None:
                self.left = len(self.unsent), len(self.missing)
        return calls

    def check(self, name: str) -> None:
        """Failure if it finished too early."""
        unsent, missing = self.left or (0, 0)
        if unsent or missing:
            raise Failure(
                f"{name} finishes with the sum, but before it has sent {unsent} of its chunks as UPDATE, and received {missing} "
                "sums of chunks as RESULT: the switch must add, and packets must bring the sums"
            )


def _take_off(chunks: set[int], packet: bytes, kind: int, values: Tensor) -> None:
    """A packet of that kind takes off the chunk whose values it carries."""
    got = read(packet)
    if got and got.kind == kind and got.chunk in chunks:
        part = values[got.chunk * LANES : (got.chunk + 1) * LANES].tolist()
        if list(got.values[: len(part)]) == part:
            chunks.discard(got.chunk)


def shown(packets: Iterable[Packet]) -> str:
    """Packets in lines: when, from where to where, and what they are."""
    lines = [f"{p.time:>10.1f} µs  {p.source} → {p.target}  {_told(p.data)}{'  LOST' if p.lost else ''}" for p in packets]
    return "\n".join(["The last packets on the links:", *lines]) if lines else "No packet was sent."


def _told(data: bytes) -> str:
    got = read(data)
    if got is None:
        return f"a packet of {len(data)} bytes that is none of these labs"
    kind = {1: "UPDATE", 2: "RESULT"}.get(got.kind, f"kind {got.kind}")
    return f"{kind} of worker {got.worker}  version {got.version}  slot {got.slot}  chunk {got.chunk}  values {got.values[0]} …"


def total_of(parts: Sequence[Tensor]) -> Tensor:
    """The sum as 32 bits hold it."""
    total: Tensor = np.sum(np.stack(parts), axis=0, dtype=np.int32)
    return total


def check_sums(results: Mapping[str, Any], parts: Sequence[Tensor]) -> None:
    """Failure unless each result is the sum of the parts."""
    expected = total_of(parts)
    for name, result in results.items():
        if not isinstance(result, np.ndarray) or result.shape != expected.shape:
            shape = f"an array of shape {result.shape}" if isinstance(result, np.ndarray) else type(result).__name__
            raise Failure(f"{name} finishes with {shape}; the sum is a numpy array of {len(expected)} integers")
        wrong = np.flatnonzero(result != expected)
        if len(wrong):
            first = int(wrong[0])
            raise Failure(
                f"{name} has a wrong sum: {len(wrong)} of {len(expected)} elements differ",
                f"The first is element {first} (chunk {first // LANES}, lane {first % LANES}):\n"
                f"    {' + '.join(str(part[first]) for part in parts)} = {expected[first]}, and {name} has {result[first]}",
            )


class Scripted:
    """A switch whose answers the check decides: it sees every packet of the labs, and says which to send."""

    def __init__(self, answer: Callable[[int, Update], list[tuple[int, Update]]]) -> None:
        self.answer = answer
        self.seen: list[Update] = []

    def send(self, port: int, packet: bytes) -> list[tuple[int, bytes]]:
        got = read(packet)
        if got is None:
            raise Failure(f"a worker sends a packet that is none of these labs: {packet[:24].hex(' ')} …")
        self.seen.append(got)
        return [(to, write(u, bytes(b"\xff" * 6), bytes.fromhex(SWITCH.replace(":", "")))) for to, u in self.answer(port, got)]


def echoed(update: Update) -> Update:
    """The result of an update of a worker that is alone."""
    return replace(update, kind=2)
