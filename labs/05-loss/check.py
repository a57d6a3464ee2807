"""Lab 5: exact sums, whatever is lost."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from scapy.all import Packet

from inalab.testbed.lab.aggregation import EVERYBODY, LANES, Update, address, result, sum_of, update, vector
from inalab.testbed.lab.lab import Failure, Lab, Share, by_degrees
from inalab.testbed.lab.network import Loss, Network, losing, losing_these
from inalab.testbed.lab.summing import LINK, ROUND_TRIP, WIRE_TIME, Scripted, check_sums, echoed, summed, switch_commands, tensors
from inalab.testbed.lab.switch import StudentSwitch
from inalab.testbed.lab.workbench import Workbench

lab = Lab(
    "Loss",
    language="P4, Python",
    hours=8,
    files=["loss.p4", "worker.py"],
    given=["headers.p4", "wire.py"],
)

RTO, SHORT = 1000.0, 700.0  # microseconds
SLOT = 5


class Rounds:
    """A switch with some workers, and packets for its slots. The vector of worker w in round r is vector(100 r + w + slot)."""

    def __init__(self, bench: Workbench, workers: int) -> None:
        """Worker w is at port workers - w: nothing says that ports are in the order of the workers."""
        self.workers = workers
        self.switch: StudentSwitch = bench.switch(switch_commands(workers), ports=workers + 1)

    def port(self, worker: int) -> int:
        return self.workers - worker

    def sent(self, worker: int, number: int, slot: int = SLOT) -> Packet:
        values = vector(100 * number + worker + slot)
        return update(worker, values, version=number % 2, slot=slot, chunk=slot + 256 * number)

    def result(self, worker: int, number: int, slot: int, to: str = EVERYBODY) -> Packet:
        values = sum_of([vector(100 * number + w + slot) for w in range(self.workers)])
        return result(worker, values, to, version=number % 2, slot=slot, chunk=slot + 256 * number)

    def waits(self, worker: int, number: int, about: str, slot: int = SLOT) -> None:
        """The vector must end in the switch."""
        self.switch.expect(self.port(worker), self.sent(worker, number, slot), [], about)

    def completes(self, worker: int, number: int, about: str, slot: int = SLOT) -> None:
        """The vector must complete its sum, which leaves at all ports."""
        ports = [(port, self.result(worker, number, slot)) for port in range(1, self.workers + 1)]
        self.switch.expect(self.port(worker), self.sent(worker, number, slot), ports, about, ["worker"])

    def answered(self, worker: int, number: int, about: str, slot: int = SLOT) -> None:
        """The vector was seen before, and its sum was complete: it must come back to this worker alone."""
        again = self.result(worker, number, slot, address(worker))
        self.switch.expect(
            self.port(worker), self.sent(worker, number, slot), [(self.port(worker), again)], about, ["worker", "dst"]
        )

    def run(self, number: int, slots: Sequence[int] = (SLOT,)) -> None:
        """A round without loss, in several slots at the same time."""
        for worker in range(self.workers - 1):
            for slot in slots:
                self.waits(worker, number, f"round {number}, slot {slot}, worker {worker}: the sum is not complete yet", slot)
        for slot in slots:
            about = f"round {number} of slot {slot} is complete with the last worker: its sum must leave at all ports"
            self.completes(self.workers - 1, number, about, slot)


@lab.task("without loss, the versions take turns", points=10)
def turns(bench: Workbench) -> None:
    for workers in (2, 16):
        rounds = Rounds(bench, workers)
        for number in range(6):
            rounds.run(number, (0, 5, 127, 128, 255))
    about = "the pool has 256 slots: slot 256 is beyond it"
    rounds.switch.expect(1, update(0, vector(1), slot=256), [], about)
    rounds.switch.expect(1, update(0, vector(1), slot=SLOT, kind=2), [], "only an UPDATE is a worker's vector")


@lab.task("a vector that comes twice is added once", points=15)
def twice(bench: Workbench) -> None:
    for workers in (3, 16):
        rounds, last = Rounds(bench, workers), workers - 1
        for number in range(3):
            rounds.waits(last, number, "the sum is not complete yet")
            about = f"worker {last} sends its vector again before the sum is complete: nothing must leave"
            rounds.waits(last, number, about)
            for worker in range(1, last):
                about = "the sum is not complete yet: one vector came twice, and another is missing"
                rounds.waits(worker, number, about)
            rounds.waits(last, number, f"worker {last} sends its vector a third time: nothing must leave")
            rounds.completes(0, number, "the vector that came three times must be in the sum once")


@lab.task("a lost result is sent again, to the worker that lacks it alone", points=15)
def again(bench: Workbench) -> None:
    rounds = Rounds(bench, 3)
    for number in range(4):
        rounds.run(number)
        for worker in (1, 1, 0, 2):
            about = f"round {number} is complete, and worker {worker} sends its vector again: it must get the sum, and nobody else"
            rounds.answered(worker, number, about)


@lab.task("a sum is kept while any worker may lack it", points=15)
def shadow_copy(bench: Workbench) -> None:
    rounds = Rounds(bench, 3)
    rounds.run(0, (SLOT, 40))
    for number in range(1, 5):
        rounds.waits(1, number, "another slot goes on meanwhile", slot=40)
        rounds.waits(0, number, f"worker 0 begins round {number}")
        rounds.waits(2, number, f"worker 2 begins round {number}")
        about = f"workers 0 and 2 are in round {number}, worker 1 lacks the sum of round {number - 1}: it must be there still"
        rounds.answered(1, number - 1, about)
        rounds.completes(1, number, f"with worker 1, round {number} is complete, and must have nothing of other rounds in it")
        rounds.waits(0, number, "another slot goes on meanwhile", slot=40)
        rounds.completes(2, number, "another slot's sum must have nothing of this one in it", slot=40)


@lab.task("a timer sends the chunk again, and that of no other slot", points=10)
def timer(bench: Workbench) -> None:
    (tensor,) = tensors(1, 6 * LANES)
    lost = {1: 2, 4: 1}  # how often a chunk's sum is kept back

    def answer(port: int, got: Update) -> list[tuple[int, Update]]:
        if lost.get(got.chunk):
            lost[got.chunk] -= 1
            return []
        return [(1, echoed(got))]

    switch, network = Scripted(answer), Network()
    times: list[tuple[float, int]] = []
    network.watch = lambda packet: times.append((packet.time, packet.number)) if packet.source == "h1" else None
    network.star("s1", switch, {"h1": bench.host("Worker", "h1")}, LINK)
    network.run({"h1": {"number": 0, "workers": 1, "tensor": tensor, "slots": 2, "rto": SHORT}})
    sent = [(u.chunk, u.version, u.values) for u in switch.seen]
    chunks = [chunk for chunk, _, _ in sent]
    wanted = [0, 1, 1, 1, 2, 3, 4, 4, 5]
    if sorted(chunks) != wanted:
        raise Failure(
            f"chunk 1's sum is lost twice, chunk 4's once: they must be sent three times and twice, others once; it sends {chunks}"
        )
    if len(set(sent)) != 6:
        raise Failure("a chunk that is sent again must be the same packet, in the same version")
    for late in (1, 4):
        at = [time for (time, _), chunk in zip(times, chunks, strict=True) if chunk == late]
        waits = [round(later - earlier) for earlier, later in pairwise(at)]
        if not all(0.95 * SHORT <= wait <= 1.1 * SHORT for wait in waits):
            wording = " and ".join(map(str, waits))
            raise Failure(f"chunk {late} must be sent again {SHORT:g} µs after it was sent before; the worker waits {wording} µs")


@lab.task("a sum that comes twice counts once", points=10)
def sum_twice(bench: Workbench) -> None:
    (tensor,) = tensors(1, 12 * LANES)
    (first, *_) = tensor.tolist()

    def answer(port: int, got: Update) -> list[tuple[int, Update]]:
        """Another worker's vector, which is no sum, and then the sum twice."""
        other = replace(got, worker=1, values=(first + 1,) * LANES)
        return [(1, other), (1, echoed(got)), (1, echoed(got))]

    switch, network = Scripted(answer), Network()
    network.star("s1", switch, {"h1": bench.host("Worker", "h1")}, LINK)
    network.run({"h1": {"number": 0, "workers": 1, "tensor": tensor, "slots": 3, "rto": RTO}})
    chunks = [u.chunk for u in switch.seen]
    if sorted(chunks) != list(range(12)):
        raise Failure(f"every sum comes twice: each of the 12 chunks must be sent once all the same; the worker sends {chunks}")
    check_sums(network.results, [tensor])


def run(bench: Workbench, chunks: int, slots: int, loss: Loss | None, workers: int = 3) -> Network:
    """Three workers sum a tensor while packets are lost."""
    switch = bench.switch(switch_commands(workers), ports=workers + 1)
    return summed(bench, switch, tensors(workers, chunks * LANES - 3), loss, slots=slots, rto=RTO)


@lab.task("any one packet may be lost", points=10)
def any_one(bench: Workbench) -> None:
    chunks, slots, workers = 6, 2, 2
    for host in ("h1", "h2"):
        for source, target in ((host, "s1"), ("s1", host)):
            for number in range(chunks):
                try:
                    run(bench, chunks, slots, losing_these((source, target, number)), workers)
                except Failure as failure:
                    raise Failure(f"packet {number} from {source} to {target} is lost: {failure}", failure.trace) from None


CHUNKS, SLOTS = 300, 16
BOUND = CHUNKS * WIRE_TIME + ROUND_TRIP  # microseconds: what the link takes without loss
FULL = {0.0: 1.2, 0.01: 4.0, 0.1: 16.0}  # times the bound, by loss, up to which there are full points


@lab.task("random loss of 1 and 10 percent, and what it costs", points=15)
def random_loss(bench: Workbench) -> Share:
    costs: dict[float, float] = {}
    for loss, seeds in ((0.0, (0,)), (0.01, (1, 2)), (0.1, (1, 2))):
        for seed in seeds:
            try:
                took = run(bench, CHUNKS, SLOTS, losing(loss, seed) if loss else None).now
            except Failure as failure:
                raise Failure(f"{loss:.0%} of all packets are lost (seed {seed}): {failure}", failure.trace) from None
            costs[loss] = max(costs.get(loss, 0.0), took / BOUND)
    share = 0.4 + sum(0.2 * by_degrees(costs[loss], FULL[loss], 2 * FULL[loss]) for loss in FULL)
    wording = ", ".join(f"{costs[loss]:.1f} at {loss:.0%}" for loss in FULL)
    return Share(share, f"times the link's bound: {wording}; full points up to {', '.join(f'{most:g}' for most in FULL.values())}")
