"""Lab 4: slots that do not touch each other, and workers that keep all of them busy."""

import numpy as np

from inalab.testbed.lab.aggregation import LANES, Update, result, sum_of, update, vector
from inalab.testbed.lab.lab import Failure, Lab, Share, by_degrees
from inalab.testbed.lab.network import Network
from inalab.testbed.lab.summing import LINK, ROUND_TRIP, WIRE_TIME, Scripted, Tensor, echoed, summed, switch_commands, tensors
from inalab.testbed.lab.switch import StudentSwitch
from inalab.testbed.lab.workbench import Workbench

lab = Lab(
    "Slots and a window", language="P4, Python", hours=5, files=["pool.p4", "worker.py"], given=["headers.p4", "wire.py"]
)  # fmt: skip


def started(bench: Workbench, workers: int) -> StudentSwitch:
    return bench.switch(switch_commands(workers), ports=workers + 1)


@lab.task("slots do not touch each other", points=15)
def slots(bench: Workbench) -> None:
    switch, used = started(bench, 2), [0, 1, 127, 255]
    for slot in used:
        switch.expect(1, update(0, vector(slot), slot=slot), [], f"slot {slot} waits for the second vector: nothing must leave")
    for slot in reversed(used):
        expected = result(1, sum_of([vector(slot), vector(slot + 1)]), slot=slot)
        about = f"slot {slot} is complete: its sum must leave at both ports, with nothing of other slots in it"
        switch.expect(2, update(1, vector(slot + 1), slot=slot), [(1, expected), (2, expected)], about, ["worker"])


@lab.task("a slot takes one chunk after the other", points=10)
def reuse(bench: Workbench) -> None:
    switch = started(bench, 2)
    for chunk in (3, 67, 131):
        switch.expect(1, update(0, vector(chunk), slot=3, chunk=chunk), [], "slot 3 waits for the second vector")
        expected = result(1, sum_of([vector(chunk), vector(chunk + 1)]), slot=3, chunk=chunk)
        sent = update(1, vector(chunk + 1), slot=3, chunk=chunk)
        switch.expect(2, sent, [(1, expected), (2, expected)], f"chunk {chunk} must begin at zero in slot 3", ["worker"])


@lab.task("a slot beyond the pool is dropped", points=10)
def beyond(bench: Workbench) -> None:
    switch = started(bench, 1)
    last = result(0, vector(1), slot=255)
    switch.expect(1, update(0, vector(1), slot=255), [(1, last)], "slot 255 is the last of the pool", ["worker"])
    for slot in (256, 511, 65535):
        switch.expect(1, update(0, vector(2), slot=slot), [], f"the pool has 256 slots: slot {slot} is beyond it")
    first = result(0, vector(3), slot=0)
    switch.expect(1, update(0, vector(3), slot=0), [(1, first)], "what was dropped must not be in slot 0", ["worker"])


def alone(bench: Workbench, switch: Scripted, tensor: Tensor, slots: int) -> Network:
    """One worker with a switch that the check plays."""
    network = Network()
    network.star("s1", switch, {"h1": bench.host("Worker", "h1")}, LINK)
    network.run({"h1": {"number": 0, "workers": 1, "tensor": tensor, "slots": slots}}, quiet=True)
    return network


@lab.task("a worker begins with one chunk in every slot", points=15)
def window(bench: Workbench) -> None:
    for length, slots in ((40 * LANES, 8), (3 * LANES, 8), (LANES * 2 + 5, 64)):
        switch = Scripted(lambda port, got: [])
        (tensor,) = tensors(1, length)
        alone(bench, switch, tensor, slots)
        sent, wanted = [(u.slot, u.chunk) for u in switch.seen], [(n, n) for n in range(min(slots, -(-length // LANES)))]
        if sorted(sent) != wanted:
            wording = ", ".join(f"chunk {c} in slot {s}" for s, c in sent[:12]) or "nothing"
            raise Failure(
                f"{length} integers and {slots} slots: without any answer the worker must send {len(wanted)} chunks, "
                f"chunk n in slot n; it sends {wording}{' …' if len(sent) > 12 else ''}"
            )
        check_values(switch.seen, tensor)


def check_values(sent: list[Update], tensor: Tensor) -> None:
    for packet in sent:
        part = tensor[packet.chunk * LANES : (packet.chunk + 1) * LANES].tolist()
        if list(packet.values) != part + [0] * (LANES - len(part)):
            raise Failure(f"chunk {packet.chunk} must carry elements {packet.chunk * LANES} and on, and zeros behind the last one")


@lab.task("a sum lets the next chunk of its slot go, and no other", points=15)
def self_clocking(bench: Workbench) -> None:
    (tensor,) = tensors(1, 20 * LANES)
    switch = Scripted(lambda port, got: [(1, echoed(got))] if got.slot == 2 else [])
    alone(bench, switch, tensor, slots=4)
    sent = sorted((u.chunk, u.slot) for u in switch.seen)
    wanted = [(0, 0), (1, 1), (2, 2), (3, 3), (6, 2), (10, 2), (14, 2), (18, 2)]
    if sent != wanted:
        raise Failure(
            "with 4 slots and 20 chunks, sums for slot 2 alone must let chunks 6, 10, 14 and 18 go, all in slot 2; "
            f"the worker sends (chunk, slot) {sent}"
        )


@lab.task("every worker has the sum, whatever the tensor's length", points=20)
def whole(bench: Workbench) -> None:
    for workers, length, slots in ((2, 64 * LANES, 8), (4, 100 * LANES + 7, 16), (3, 5, 4), (2, LANES, 1)):
        try:
            summed(bench, started(bench, workers), tensors(workers, length), slots=slots)
        except Failure as failure:
            raise Failure(f"{workers} workers, {length} integers, {slots} slots: {failure}", failure.trace) from None


@lab.task("the slots are kept busy", points=15)
def speed(bench: Workbench) -> Share:
    chunks, slots = 400, 32
    network = summed(bench, started(bench, 4), tensors(4, chunks * LANES), slots=slots)
    took, bound = network.now, bound_of(chunks, slots)
    share = by_degrees(took / bound, full=1.1, none=2.0)
    return Share(share, f"{chunks} chunks take {took:.0f} µs, {took / bound:.2f} times the bound; full points up to 1.10")


def bound_of(chunks: int, slots: int) -> float:
    """Microseconds: no link carries more than one packet at a time, and no slot more than one chunk a round trip (Little)."""
    return max(chunks * WIRE_TIME + ROUND_TRIP - WIRE_TIME, float(np.ceil(chunks / slots)) * ROUND_TRIP)
