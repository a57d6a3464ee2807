"""Lab 3's figure: what the busiest link carries for a sum, in the switch and at a parameter server."""

from collections.abc import Mapping
from typing import Any

from check import started
from matplotlib.figure import Figure

from inalab.testbed.draw.plots import COLOURS, new_figure
from inalab.testbed.lab.aggregation import LANES, Update, read, write
from inalab.testbed.lab.figures import beside
from inalab.testbed.lab.lab import Failure, Plot
from inalab.testbed.lab.network import Device, HostOn, Network
from inalab.testbed.lab.scripted import Answering
from inalab.testbed.lab.workbench import Workbench

CHUNKS = 64  # vectors of a worker's tensor, one after the other
WORKERS = (2, 3, 4, 6, 8, 12, 16)
SERVER = bytes.fromhex("0200000000aa")


class Lockstep:
    """A worker that sends the next vector when it has the sum of the one before."""

    def __init__(self, worker: int, workers: int, to: bytes) -> None:
        self.worker, self.workers, self.to, self.next = worker, workers, to, 0

    def start(self, now: float, **given: Any) -> list[tuple[str, Any]]:
        self.next += 1
        vector = tuple(self.worker + self.next + lane for lane in range(LANES))
        return [("send", write(Update(worker=self.worker, chunk=self.next, values=vector), self.to, address(self.worker)))]

    def receive(self, now: float, packet: bytes) -> list[tuple[str, Any]]:
        got = read(packet)
        right = tuple(sum(worker + self.next + lane for worker in range(self.workers)) for lane in range(LANES))
        if got is None or got.values != right:
            raise Failure(f"sum {self.next} of {self.workers} workers is wrong")
        return [("finish", None)] if self.next == CHUNKS else self.start(now)

    def expire(self, now: float, timer: str) -> list[tuple[str, Any]]:
        return []


class Forwarding:
    """A switch that only forwards: a parameter server needs no more. The server is at port 0."""

    def send(self, port: int, packet: bytes) -> list[tuple[int, bytes]]:
        return [(0 if packet[:6] == SERVER else packet[5], packet)]


def address(worker: int) -> bytes:
    return bytes([2, 0, 0, 0, 0, worker + 1])


def server(workers: int) -> Answering:
    """Adds n vectors, and sends each worker the sum in a packet of its own."""
    waiting: list[Update] = []

    def answer(now: float, data: bytes) -> list[bytes]:
        packet = read(data)
        if packet is not None:
            waiting.append(packet)
        if len(waiting) < workers:
            return []
        sums = tuple(sum(column) for column in zip(*(u.values for u in waiting), strict=True))
        chunk = waiting[0].chunk
        waiting.clear()
        return [write(Update(kind=2, chunk=chunk, values=sums), address(worker), SERVER) for worker in range(workers)]

    return Answering(answer)


def run(device: Device, workers: int, extra: Mapping[str, HostOn], to: bytes) -> list[float]:
    """Bytes on the busiest direction of a link, and microseconds, for the whole tensor."""
    network = Network()
    network.star("s1", device, {f"h{w + 1}": Lockstep(w, workers, to) for w in range(workers)})
    for name, host in extra.items():
        network.hosts[name] = host
        network.join(name, 0, "s1", 0)
    network.run({})
    if not all(f"h{w + 1}" in network.finished for w in range(workers)):
        raise Failure("the workers do not get all sums")
    return [max(d.bytes for d in network.directions.values()), network.now]


def measure(bench: Workbench) -> dict[str, Any]:
    return {"busiest": [run(started(bench, n), n, {}, address(0xFD))[0] for n in WORKERS]}


def draw(yours: Mapping[str, Any], reference: Mapping[str, Any]) -> Figure:
    figure, (ax,) = new_figure(size=(7.0, 4.2))
    at_server = [run(Forwarding(), n, {"server": server(n)}, SERVER)[0] / 1000 for n in WORKERS]
    beside(
        ax, WORKERS, [b / 1000 for b in yours["busiest"]], [b / 1000 for b in reference["busiest"]], COLOURS[0], "sum in the switch"
    )
    ax.plot(WORKERS, at_server, color=COLOURS[2], marker="s", markersize=4, label="sum at a parameter server")
    ax.set(
        xlabel="workers", ylabel="kilobytes on the busiest link, one direction", ylim=(0, None), xticks=WORKERS,
        title=f"A tensor of {CHUNKS * LANES} integers: a server's link carries it n times",
    )  # fmt: skip
    ax.legend(frameon=False)
    return figure


plot = Plot(measure, draw)
