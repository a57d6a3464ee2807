"""Lab 9: partial sums in the racks, and loss on every hop."""

from collections.abc import Mapping, Sequence
from typing import Any

from scapy.all import Ether, Packet

from inalab.testbed.lab.aggregation import EVERYBODY, LANES, SWITCH, Aggregation, address, group, result, sum_of, update, vector
from inalab.testbed.lab.confinement import LABS
from inalab.testbed.lab.lab import Failure, Lab, Share, by_degrees
from inalab.testbed.lab.network import Loss, Network, losing, losing_these
from inalab.testbed.lab.summing import LINK, ROUND_TRIP, WIRE_TIME, Tensor, check_sums, shown, tensors
from inalab.testbed.lab.switch import StudentSwitch
from inalab.testbed.lab.workbench import Workbench

lab = Lab("Two racks", language="P4", hours=5, files=["racks.p4"], given=["headers.p4"])

STARTER = LABS / "09-racks" / "starter"  # where lab 5's worker is: what is in labs/given can be imported in lab 5, too
UP = 9  # the port of a rack's switch that leads to the root
NUMBER = 1  # of the rack under test among the root's children
RTO = 1500.0


def rack_commands(children: int, number: int) -> list[str]:
    return [f"table_set_default place set_place {children} {UP} {number}", *group(range(1, children + 1))]


def root_commands(racks: int) -> list[str]:
    return [f"table_set_default place set_place {racks} 0 0", *group(range(1, racks + 1))]


class Rack:
    """A rack's switch with workers 0 … n - 1 at ports n … 1. Worker w's vector in round r is vector(100 r + w)."""

    def __init__(self, bench: Workbench, workers: int) -> None:
        self.workers = workers
        self.switch: StudentSwitch = bench.switch(rack_commands(workers, NUMBER), ports=UP + 1)

    def fields(self, number: int, slot: int) -> dict[str, int]:
        return {"version": number % 2, "slot": slot, "chunk": slot + 256 * number}

    def sent(self, worker: int, number: int, slot: int = 5) -> Packet:
        return update(worker, vector(100 * number + worker), **self.fields(number, slot))

    def part(self, number: int, slot: int = 5) -> Packet:
        """The sum of this rack's workers, as it goes up."""
        values = sum_of([vector(100 * number + worker) for worker in range(self.workers)])
        return Ether(src=SWITCH, dst=SWITCH) / Aggregation(worker=NUMBER, values=values, **self.fields(number, slot))

    def whole(self, number: int, to: str = EVERYBODY, slot: int = 5) -> Packet:
        """The sum of all workers, as it comes down."""
        return result(0, vector(5000 + number), to, **self.fields(number, slot))

    def waits(self, worker: int, number: int, about: str) -> None:
        self.switch.expect(self.workers - worker, self.sent(worker, number), [], about)

    def goes_up(self, worker: int, number: int, about: str) -> None:
        """The vector must make the rack's sum leave at the port above, and nowhere else."""
        self.switch.expect(self.workers - worker, self.sent(worker, number), [(UP, self.part(number))], about, ["dst"])

    def comes_down(self, number: int, about: str) -> None:
        """The sum of all workers arrives from above: all workers of the rack must get it."""
        ports = [(port, self.whole(number)) for port in range(1, self.workers + 1)]
        self.switch.expect(UP, self.whole(number, SWITCH), ports, about, ["worker"])

    def fill(self, number: int) -> None:
        for worker in range(self.workers - 1):
            self.waits(worker, number, "the rack's sum is not complete: nothing must leave")
        about = "the last worker of the rack completes its sum: it must go up, as the vector of child 1, and to nobody else"
        self.goes_up(self.workers - 1, number, about)


@lab.task("a rack's sum goes up, as one vector", points=15)
def up(bench: Workbench) -> None:
    for workers in (1, 3, 8):
        rack = Rack(bench, workers)
        for number in range(4):
            rack.fill(number)
            rack.comes_down(number, "the sum of all workers comes from above: all workers of the rack must get it")


@lab.task("the sum of all workers comes down, to every worker of the rack", points=15)
def down(bench: Workbench) -> None:
    rack = Rack(bench, 3)
    for number in range(3):
        rack.fill(number)
        about = "a RESULT from a worker's port must be dropped: only the switch above may send it"
        rack.switch.expect(2, rack.whole(number, SWITCH), [], about)
        about = "an UPDATE from above must be dropped: vectors come from below"
        rack.switch.expect(UP, update(0, vector(1), **rack.fields(number, 5)), [], about)
        rack.comes_down(number, f"round {number}: the sum of all workers comes from above: all workers of the rack must get it")


@lab.task("at the root, the sum goes down to the racks", points=10)
def root(bench: Workbench) -> None:
    switch = bench.switch(root_commands(2), ports=4)
    for number in range(4):
        fields = {"version": number % 2, "slot": 7, "chunk": 7 + 256 * number}
        values = [vector(number), vector(number + 50)]
        switch.expect(1, update(0, values[0], **fields), [], "one of two racks is missing: nothing must leave")
        sums = result(1, sum_of(values), **fields)
        about = "with the second rack the sum is complete: it must go down to both, as a RESULT"
        switch.expect(2, update(1, values[1], **fields), [(1, sums), (2, sums)], about, ["worker"])
        again = result(0, sum_of(values), address(0), **fields)
        about = "rack 0 sends its sum again: it must get the sum of all, and the other rack must not"
        switch.expect(1, update(0, values[0], **fields), [(1, again)], about, ["worker", "dst"])


@lab.task("what was lost above is asked for again", points=15)
def again_above(bench: Workbench) -> None:
    rack = Rack(bench, 3)
    for number in range(3):
        rack.waits(0, number, "the rack's sum is not complete: nothing must leave")
        rack.waits(0, number, "worker 0 sends again, and the rack's sum is not complete: nothing must leave")
        rack.waits(2, number, "the rack's sum is not complete: nothing must leave")
        rack.goes_up(1, number, "the rack's sum is complete: it must go up, each vector once")
        about = "a worker sends again, and no sum has come from above: the rack's sum, or the answer, was lost. It must go up again"
        rack.goes_up(0, number, about)
        rack.goes_up(2, number, about)
        rack.comes_down(number, "the sum of all workers comes from above: all workers of the rack must get it")


@lab.task("what was lost below is answered by the rack", points=15)
def again_below(bench: Workbench) -> None:
    rack = Rack(bench, 3)
    rack.fill(0)
    rack.comes_down(0, "the sum of all workers comes from above: all workers of the rack must get it")
    for number in range(4):
        about = f"round {number}: a worker sends again, and the rack knows the sum of all: it must answer, and that worker alone"
        for worker in (2, 0):
            answer = (rack.workers - worker, rack.whole(number, address(worker)))
            rack.switch.expect(rack.workers - worker, rack.sent(worker, number), [answer], about, ["worker", "dst"])
        rack.waits(0, number + 1, "worker 0 begins the next round")
        late = (rack.workers - 1, rack.whole(number, address(1)))
        about = f"worker 1 still lacks the sum of round {number}, and worker 0 is in the next: the rack must still have it"
        rack.switch.expect(rack.workers - 1, rack.sent(1, number), [late], about, ["worker", "dst"])
        rack.waits(1, number + 1, "the rack's sum is not complete: nothing must leave")
        rack.goes_up(2, number + 1, "the rack's sum is complete: it must go up, with nothing of other rounds in it")
        rack.comes_down(number + 1, "the sum of all workers comes from above: all workers of the rack must get it")


@lab.task("a sum that comes down twice, or late, changes nothing", points=10)
def stale(bench: Workbench) -> None:
    rack = Rack(bench, 2)
    for number in range(3):
        rack.fill(number)
        if number > 1:
            about = f"the sum of round {number - 2} comes once more, and its cell holds round {number}: it must be dropped"
            rack.switch.expect(UP, rack.whole(number - 2, SWITCH), [], about)
        rack.comes_down(number, "the sum of all workers comes from above: all workers of the rack must get it")
        rack.switch.expect(UP, rack.whole(number, SWITCH), [], "the sum of all comes a second time: the workers have it, drop it")
    rack.waits(0, 3, "worker 0 begins round 3")
    rack.switch.expect(UP, rack.whole(1, SWITCH), [], "round 3 is under way in the cell of round 1, whose sum comes late: drop it")
    rack.goes_up(1, 3, "a late sum must not be in the rack's sum")


# --- everything together


def run(bench: Workbench, racks: int, workers: int, parts: Sequence[Tensor], loss: Loss | None = None, slots: int = 16) -> Network:
    """Racks of workers sum tensors, and each worker must have the sum. Racks are r1, r2, …; the workers of r1 are r1h1, r1h2, …"""
    network = Network(loss=loss)
    network.switches["root"] = bench.switch(root_commands(racks), ports=racks + 1)
    starts: dict[str, Mapping[str, Any]] = {}
    for rack in range(racks):
        name = f"r{rack + 1}"
        network.switches[name] = bench.switch(rack_commands(workers, rack), ports=UP + 1)
        network.join(name, UP, "root", rack + 1, LINK)
        for worker in range(workers):
            host = f"{name}h{worker + 1}"
            network.hosts[host] = bench.given_host(STARTER / "sum_worker.py", "Worker", host)
            network.join(host, 0, name, worker + 1, LINK)
            part = parts[rack * workers + worker]
            starts[host] = {"number": worker, "workers": workers, "tensor": part, "slots": slots, "rto": RTO}
    try:
        network.run(starts)
        check_sums(network.results, parts)
        if loss is None:
            expect_uplinks(network, racks, -(-len(parts[0]) // LANES))
    except Failure as failure:
        raise Failure(str(failure), "\n".join(filter(None, [failure.trace, shown(network.recent)]))) from None
    return network


def expect_uplinks(network: Network, racks: int, chunks: int) -> None:
    """Without loss an uplink carries one vector a chunk each way: where the root alone adds, it carries every worker's."""
    for rack in range(racks):
        for source, port, target in ((f"r{rack + 1}", UP, "the root"), ("root", rack + 1, f"r{rack + 1}")):
            if (found := network.directions[source, port].packets) != chunks:
                raise Failure(f"{source} sends {found} packets to {target} for {chunks} chunks without loss: one for each is due")


@lab.task("two racks sum, also if any one packet is lost", points=10)
def any_one(bench: Workbench) -> None:
    parts, chunks = tensors(4, 4 * LANES - 5), 4
    run(bench, 2, 2, parts, slots=2)
    for pair in (("r1h1", "r1"), ("r2h2", "r2"), ("r1", "root"), ("r2", "root")):
        for source, target in (pair, pair[::-1]):
            for number in range(chunks):
                try:
                    run(bench, 2, 2, parts, losing_these((source, target, number)), slots=2)
                except Failure as failure:
                    raise Failure(f"packet {number} from {source} to {target} is lost: {failure}", failure.trace) from None


CHUNKS = 150
BOUND = CHUNKS * WIRE_TIME + 2 * ROUND_TRIP  # microseconds, without loss
FULL = {0.0: 1.5, 0.01: 8.0, 0.05: 25.0}  # times the bound, by loss


@lab.task("random loss on every hop", points=10)
def random_loss(bench: Workbench) -> Share:
    costs = {}
    for loss in FULL:
        try:
            parts = tensors(6, CHUNKS * LANES)
            costs[loss] = run(bench, 2, 3, parts, losing(loss, seed=4) if loss else None, slots=32).now / BOUND
        except Failure as failure:
            raise Failure(f"{loss:.0%} of all packets are lost: {failure}", failure.trace) from None
    share = 0.4 + sum(0.2 * by_degrees(costs[loss], FULL[loss], 2 * FULL[loss]) for loss in FULL)
    wording = ", ".join(f"{costs[loss]:.1f} at {loss:.0%}" for loss in FULL)
    return Share(share, f"times the links' bound: {wording}; full points up to {', '.join(f'{most:g}' for most in FULL.values())}")
