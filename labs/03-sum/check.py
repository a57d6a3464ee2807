"""Lab 3: the sum of n workers' vectors, to all of them."""

from collections.abc import Sequence

from scapy.all import Ether, Raw

from inalab.testbed.lab.aggregation import RESULT, group, result, sum_of, update, vector
from inalab.testbed.lab.lab import Lab
from inalab.testbed.lab.switch import StudentSwitch
from inalab.testbed.lab.workbench import Workbench

lab = Lab("Sum in the switch", language="P4", hours=4, files=["sum.p4"], given=["headers.p4"])

LARGEST, SMALLEST = 2**31 - 1, -(2**31)


def started(bench: Workbench, workers: int) -> StudentSwitch:
    """The student's switch, with worker w at port w + 1."""
    ports = range(1, workers + 1)
    return bench.switch([f"table_set_default job set_workers {workers}", *group(ports)], ports=workers + 1)


def add(switch: StudentSwitch, workers: int, vectors: Sequence[Sequence[int]], about: str) -> None:
    """A round: nothing must leave before the last vector, and then the sum at every port. `vectors` by worker, in order."""
    for worker, values in enumerate(vectors):
        last = worker == workers - 1
        sums = [(port, result(0, sum_of(vectors))) for port in range(1, workers + 1)] if last else []
        reason = about if last else f"after {worker + 1} of {workers} vectors nothing must leave"
        switch.expect(worker + 1, update(worker, values), sums, reason, ignoring=["worker"])


@lab.task("one worker gets its own vector back", points=10)
def alone(bench: Workbench) -> None:
    add(started(bench, 1), 1, [vector(1)], "the sum of one vector is the vector")


@lab.task("nothing leaves before the last vector", points=15)
def waits(bench: Workbench) -> None:
    switch = started(bench, 3)
    add(switch, 3, [vector(1), vector(2), vector(3)], "with the third of three vectors the sum must leave")


@lab.task("two workers both get the sum, in every lane", points=20)
def pair(bench: Workbench) -> None:
    add(started(bench, 2), 2, [vector(3), vector(4)], "the sum of two vectors must leave at both ports")


@lab.task("the next sum begins at zero", points=15)
def again(bench: Workbench) -> None:
    switch = started(bench, 2)
    for n in range(5):
        add(switch, 2, [vector(n), vector(50 + n)], f"sum number {n + 1} must have nothing of those before it")


@lab.task("negative numbers, and sums that wrap around at 32 bits", points=15)
def wrap_around(bench: Workbench) -> None:
    switch = started(bench, 2)
    add(switch, 2, [[-1] * 16, [1, 0, -1, 5] * 4], "the lanes are two's complement: -1 and 1 make 0")
    some = [abs(value) + 1 for value in vector(9)]  # which no program can have built in
    add(switch, 2, [[-2 * value for value in some], some], "the lanes are two's complement: -2 and 1 make -1")
    about = "a sum that does not fit into 32 bits wraps around, and does not saturate"
    first, second = [LARGEST, SMALLEST, SMALLEST, LARGEST], [1, -1, SMALLEST, LARGEST]
    add(switch, 2, [first * 4, second * 4], about)
    add(switch, 2, [[LARGEST - value for value in some], [2 * value for value in some]], about)


@lab.task("up to sixteen workers, every one of them gets the sum", points=15)
def many(bench: Workbench) -> None:
    for workers in (4, 16):
        switch = started(bench, workers)
        for n in range(2):
            vectors = [vector(worker + 100 * n) for worker in range(workers)]
            add(switch, workers, vectors, f"the sum of {workers} workers must leave at all {workers} ports")


@lab.task("what is no worker's vector is dropped, and not added", points=10)
def others(bench: Workbench) -> None:
    switch = started(bench, 2)
    about = "only an UPDATE is a worker's vector: anything else must be dropped"
    switch.expect(1, update(0, vector(1)), [], "after 1 of 2 vectors nothing must leave")
    switch.expect(2, update(1, vector(9), kind=RESULT), [], about)
    switch.expect(2, update(1, vector(9), kind=7), [], about)
    switch.expect(2, Ether(src="02:00:00:00:00:02", dst="ff:ff:ff:ff:ff:ff", type=0x0806) / Raw(bytes(28)), [], about)
    sums = [(port, result(1, sum_of([vector(1), vector(2)]))) for port in (1, 2)]
    switch.expect(2, update(1, vector(2)), sums, "what was dropped must not be in the sum", ignoring=["worker"])
