"""Lab 12: sharded training: sums for their owners alone, and layers that are gathered when they are needed."""

import runpy
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scapy.packet import Packet

from inalab.testbed.lab.aggregation import LANES, SWITCH, Update, address, read, result, sum_of, update, vector, write
from inalab.testbed.lab.confinement import GIVEN
from inalab.testbed.lab.lab import Failure, Lab
from inalab.testbed.lab.network import Network
from inalab.testbed.lab.network import Packet as OnLink
from inalab.testbed.lab.student import expect_array
from inalab.testbed.lab.summing import LINK, shown, switch_commands
from inalab.testbed.lab.switch import StudentSwitch
from inalab.testbed.lab.workbench import Workbench

lab = Lab(
    "Sharded training", language="P4, Python", hours=5, files=["shard.p4", "sharded.py"],
    given=["headers.p4", "wire.py", "layers.py"],
)  # fmt: skip

UPDATE, RESULT, FREE, PARAMETERS = 1, 2, 3, 4
MODEL = runpy.run_path(str(GIVEN / "layers.py"))
Floats = NDArray[np.float32]


class Started:
    """The student's switch, and the workers' ports, which are drawn anew each time."""

    def __init__(self, bench: Workbench, workers: int) -> None:
        self.ports = [int(port) + 1 for port in np.random.default_rng().permutation(workers)]  # of each worker
        owners = [f"table_add owners set_owner {address(worker)} => {port}" for worker, port in enumerate(self.ports)]
        self.switch: StudentSwitch = bench.switch([*switch_commands(workers), *owners], ports=workers + 1)


def owned(worker: int, owner: int, number: int, **fields: Any) -> Packet:
    """Worker w's vector for an owner."""
    made = update(worker, vector(100 * number + worker), **fields)
    made.dst = address(owner)
    return made


def scattered(started: Started, owner: int, number: int, slot: int) -> None:
    """A sum: with the last worker's vector the owner must get it, and the others a FREE."""
    ports, workers = started.ports, len(started.ports)
    for worker in range(workers - 1):
        sent = owned(worker, owner, number, slot=slot, chunk=number)
        started.switch.expect(ports[worker], sent, [], f"after {worker + 1} of {workers} vectors nothing must leave")
    made = result(workers - 1, sum_of([vector(100 * number + w) for w in range(workers)]), slot=slot, chunk=number)
    made.dst = address(owner)
    free = made.copy()
    free.kind = FREE
    bare = bytes(free)[: -4 * LANES]  # without the values
    sent, about = owned(workers - 1, owner, number, slot=slot, chunk=number), f"the sum of worker {owner}'s chunk is complete"
    came = started.switch.send(ports[-1], bytes(sent))
    for port in range(1, workers + 1):
        here = [packet for to, packet in came if to == port]
        wanted = bytes(made) if port == ports[owner] else bare
        if len(here) != 1 or len(came) != workers:
            raise Failure(f"{about}: one packet must leave at each worker's port; {len(here)} of {len(came)} leave at port {port}")
        if unnamed(here[0]) != unnamed(wanted):
            what = (
                "its owner must get it as a RESULT"
                if port == ports[owner]
                else "who does not own it must get a FREE without values"
            )
            raise Failure(f"{about}: {what}", f"Expected at port {port}: {wanted.hex(' ')}\nCame:              {here[0].hex(' ')}")


def unnamed(packet: bytes) -> bytes:
    """A packet without the field `worker`, which may have any value."""
    return packet[:15] + packet[16:]


@lab.task("a sum goes to its owner, and all others learn that the slot is free", points=20)
def owner(bench: Workbench) -> None:
    draw = np.random.default_rng()
    for workers in (2, 5, 16):
        switch = Started(bench, workers)
        for number, who in enumerate(draw.permutation(workers)[:4]):
            scattered(switch, int(who), number, slot=int(draw.integers(256)))


@lab.task("slots do not touch each other, and begin at zero", points=5)
def slots(bench: Workbench) -> None:
    started = Started(bench, 3)
    switch, ports = started.switch, started.ports
    waits, *others = (int(slot) for slot in np.random.default_rng().choice(np.arange(1, 255), 4, replace=False))
    switch.send(ports[0], bytes(owned(0, 2, 900, slot=waits, chunk=90)))
    for number in range(3):
        for slot in (0, 255, *others):
            scattered(started, (number + slot) % 3, 300 * number + slot, slot)
    switch.send(ports[1], bytes(owned(1, 2, 900, slot=waits, chunk=90)))
    came = {port: read(packet) for port, packet in switch.send(ports[2], bytes(owned(2, 2, 900, slot=waits, chunk=90)))}
    if (sums := came.get(ports[2])) is None or list(sums.values) != sum_of([vector(90_000 + worker) for worker in range(3)]):
        raise Failure(f"slot {waits} waited while others were used: its sum must have nothing of those in it")


@lab.task("parameters go to all but their owner", points=10)
def parameters(bench: Workbench) -> None:
    started = Started(bench, 4)
    switch, port_of = started.switch, started.ports
    for worker in (2, 0, 3):
        sent = update(worker, vector(worker), kind=PARAMETERS, version=7, chunk=3 + worker)
        sent.dst = "ff:ff:ff:ff:ff:ff"
        ports = [port for port in range(1, 5) if port != port_of[worker]]
        about = f"worker {worker}'s PARAMETERS must reach all others as they are, and not come back"
        switch.expect(port_of[worker], sent, [(port, sent) for port in ports], about)
    for kind in (RESULT, FREE, 7):
        switch.expect(port_of[0], update(0, vector(1), kind=kind), [], f"a packet of kind {kind} from a worker must be dropped")
    stray = update(0, vector(1))
    stray.dst = SWITCH
    switch.expect(port_of[0], stray, [], "a vector that is for no worker must be dropped")
    scattered(started, 1, 5, slot=0)  # nothing of all that is in a sum


# --- the worker, with a switch and other workers that the check plays


class Task:
    """A training: layers in shards of so many chunks, and each worker's data; drawn anew each time."""

    def __init__(self, workers: int, chunks: int, depth: int, steps: int, slots: int = 8) -> None:
        self.workers, self.chunks, self.depth, self.steps, self.slots = workers, chunks, depth, steps, slots
        draw = self.draw = np.random.default_rng()
        self.width = workers * chunks * LANES
        self.layers = [self.drawn() for _ in range(depth)]
        self.x = [draw.uniform(-1, 1, self.width).astype(np.float32) for _ in range(workers)]
        true = draw.uniform(0.5, 2, self.width).astype(np.float32)
        self.target = [true * x for x in self.x]

    def drawn(self) -> Floats:
        return self.draw.uniform(0.7, 1.3, self.width).astype(np.float32)

    def of(self, worker: int) -> slice:
        return slice(worker * self.chunks * LANES, (worker + 1) * self.chunks * LANES)

    def start(self, worker: int) -> dict[str, Any]:
        return {
            "number": worker, "workers": self.workers, "shards": [layer[self.of(worker)] for layer in self.layers],
            "chunks": self.chunks, "x": self.x[worker], "target": self.target[worker], "slots": self.slots, "steps": self.steps,
        }  # fmt: skip

    def cut(self, layer: int, values: NDArray[Any], first: int = 0) -> dict[int, tuple[int, ...]]:
        """Values by the numbers of their chunks; the first is the layer's chunk `first`."""
        rows = values.reshape(-1, LANES).tolist()
        return {layer * self.workers * self.chunks + first + n: tuple(row) for n, row in enumerate(rows)}

    def trained(self) -> tuple[list[Floats], list[list[NDArray[np.int32]]]]:
        """The layers after all steps, computed in one place; and each step's sums of gradients, layer by layer."""
        current, momenta = [layer.copy() for layer in self.layers], [np.zeros(self.width, np.float32) for _ in self.layers]
        summed = []
        for _ in range(self.steps):
            sums = [np.zeros(self.width, np.int32) for _ in self.layers]
            for x, target in zip(self.x, self.target, strict=True):
                inputs = [x]
                for layer in current:
                    inputs.append(MODEL["forward"](layer, inputs[-1]))
                error = MODEL["error"](inputs.pop(), target)
                for n in reversed(range(self.depth)):
                    gradient, error = MODEL["backward"](current[n], inputs.pop(), error)
                    sums[n] += gradient
            for n in range(self.depth):
                current[n], momenta[n] = MODEL["update"](current[n], momenta[n], sums[n], self.workers)
            summed.append(sums)
        return current, summed


class Others:
    """A switch, and all workers but one. In gather g these have the parameters `given[g]` of its layer.

    With `slow`, a sum of each layer waits until those of all other slots have been sent.
    """

    def __init__(self, task: Task, number: int, given: Sequence[Floats], slow: bool) -> None:
        self.task, self.number, self.given, self.slow = task, number, given, slow
        self.seen: list[tuple[Update, str]] = []  # packets, and where they go
        self.told = 0  # gathers of which the others have sent theirs
        self.came = 0  # packets of the collective that is under way
        self.last: dict[int, float] = {}  # when the last packet of each gather has begun its way to the worker, and
        self.first: dict[int, float] = {}  # when the worker's first one has begun its own
        self.sums: list[NDArray[np.int32]] = []  # of the worker's own shard, scatter by scatter
        self.held = -1  # the slot whose sum waits, and the sum
        self.waiting: list[tuple[int, bytes]] = []
        self.early: list[int] = []  # slots that the worker has used while their sum waited

    def watch(self, packet: OnLink) -> None:
        got = read(packet.data)
        if got is not None and got.kind == PARAMETERS:
            if packet.source == "s1":
                self.last[got.version] = packet.time
            else:
                self.first.setdefault(got.version, packet.time)

    def send(self, port: int, packet: bytes) -> list[tuple[int, bytes]]:
        got = read(packet)
        if got is None:
            raise Failure(f"the worker sends a packet that is none of these labs: {packet[:24].hex(' ')} …")
        self.seen.append((got, packet[:6].hex(":")))
        self.came += 1
        return self._gathered() if got.kind == PARAMETERS else self._scattered(got)

    def _gathered(self) -> list[tuple[int, bytes]]:
        if self.came < self.task.chunks:
            return []
        self.came = 0
        gather = sum(one.kind == PARAMETERS for one, _ in self.seen) // self.task.chunks - 1
        ahead = gather + 1 if gather % (2 * self.task.depth) < self.task.depth else gather
        return self._parameters(ahead, late=gather)

    def _scattered(self, got: Update) -> list[tuple[int, bytes]]:
        task, total = self.task, self.task.workers * self.task.chunks
        if self.came == 1 or not self.sums:
            self.sums.append(np.zeros(task.chunks * LANES, np.int32))
            self.held = int(task.draw.integers(task.slots)) if self.slow else -1
        n = got.chunk % total
        answer = [self._sum(got, n)]
        if n % task.slots == self.held and not self.waiting:
            self.waiting, answer = answer, []
        elif n % task.slots == self.held:
            self.early.append(self.held)
        if self.held >= 0 and self.came == total - len(range(self.held, total, task.slots)) + 1:
            answer, self.waiting, self.held = [*answer, *self.waiting], [], -1
        if self.came < total:
            return answer
        self.came = 0
        return [*self._parameters(self.told), *answer]

    def _sum(self, got: Update, n: int) -> tuple[int, bytes]:
        """What comes for the layer's chunk n: with gradients of the others, if the worker owns it."""
        at = n - self.number * self.task.chunks
        if not 0 <= at < self.task.chunks:
            return 1, write(Update(FREE, chunk=got.chunk, slot=got.slot))[: -4 * LANES]
        values = np.array(got.values) + self.task.draw.integers(-20_000, 20_001, LANES)
        self.sums[-1][at * LANES : (at + 1) * LANES] = values
        return 1, write(Update(RESULT, chunk=got.chunk, slot=got.slot, values=tuple(values.tolist())))

    def _parameters(self, upto: int, late: int = -1) -> list[tuple[int, bytes]]:
        """The others' of all gathers up to this one. Some workers may be ahead; one packet of gather `late` comes last."""
        packets = []
        for gather in range(self.told, min(upto, len(self.given) - 1) + 1):
            layer = self.layer_of(gather)
            for chunk, values in self.task.cut(layer, self.given[gather].view(np.int32)).items():
                owner = chunk % (self.task.workers * self.task.chunks) // self.task.chunks
                if owner != self.number:
                    packets.append((gather, write(Update(PARAMETERS, owner, gather % 256, 0, 0, chunk, values))))
        self.told = max(self.told, upto + 1)
        lagging = [p for p in packets if p[0] == late][-1:]
        return [(1, data) for _, data in [*(p for p in packets if p not in lagging), *lagging]]

    def layer_of(self, gather: int) -> int:
        n = gather % (2 * self.task.depth)
        return n if n < self.task.depth else 2 * self.task.depth - 1 - n


def alone(bench: Workbench, changing: bool) -> tuple[Task, Others, int]:
    """The student's worker with others that the check plays, and what it sends."""

    def play() -> tuple[Task, Others, int]:
        task = Task(workers=3, chunks=4, depth=2, steps=3, slots=5)
        number = int(task.draw.integers(3))
        given = [task.layers[n] for _ in range(task.steps) for n in (*range(task.depth), *reversed(range(task.depth)))]
        if changing:
            given = [task.drawn() for _ in given]
        others = Others(task, number, given, slow=not changing)
        network = Network(watch=others.watch)
        network.star("s1", others, {"h1": bench.host("Worker", "the worker")}, LINK)
        network.run({"h1": task.start(number)}, quiet=True)
        return task, others, number

    return bench.once(("alone", changing), play)  # type: ignore[no-any-return]


def expect_chunks(sent: Mapping[int, tuple[int, ...]], due: Mapping[int, tuple[int, ...]], about: str) -> None:
    if sorted(sent) != sorted(due):
        raise Failure(f"{about} chunks {sorted(due)} are due; the worker sends {sorted(sent) or 'none'}")
    for chunk, values in due.items():
        if sent[chunk] != values:
            raise Failure(
                f"{about} chunk {chunk} has other values than it must have", f"Expected: {values}\nCame:     {sent[chunk]}"
            )


def collectives(others: Others) -> list[list[tuple[Update, str]]]:
    """The packets of each collective, one after the other: those of a gather have its number."""
    found: list[list[tuple[Update, str]]] = []
    kind = None
    for one, to in others.seen:
        now = (one.kind, one.version if one.kind == PARAMETERS else one.chunk // (others.task.workers * others.task.chunks))
        if now != kind:
            found.append([])
        kind = now
        found[-1].append((one, to))
    return found


@lab.task("a worker gathers a layer: it sends its shard, and takes the others'", points=15)
def gather(bench: Workbench) -> None:
    task, others, number = alone(bench, False)
    found = collectives(others)
    for n, layer in enumerate([*range(task.depth), task.depth - 1]):  # forward, and the first one backward
        sent = [one for one, _ in found[n]] if n < len(found) else []
        due = task.cut(layer, task.layers[layer][task.of(number)].view(np.int32), number * task.chunks)
        expect_chunks({one.chunk: one.values for one in sent}, due, f"gather {n}, of worker {number} of 3, 4 chunks a shard:")
        if any(one.kind != PARAMETERS or one.version != n for one in sent) or len(sent) != task.chunks:
            raise Failure(f"gather {n} must be {task.chunks} packets PARAMETERS of version {n}, one for each chunk", str(sent[0]))
        if n < task.depth and others.first.get(n + 1, np.inf) < others.last.get(n, 0.0) + LINK.delay:
            raise Failure(f"gather {n + 1} begins before gather {n} is complete: a worker must wait for the others' parameters")


@lab.task("a worker scatters gradients to their owners, with all slots in use", points=15)
def scatter(bench: Workbench) -> None:
    task, others, number = alone(bench, False)
    top, total = task.depth - 1, task.workers * task.chunks
    sent = [(one, to) for one, to in others.seen if one.kind == UPDATE and one.chunk // total == top][:total]
    inputs = [task.x[number]]
    for layer in task.layers:
        inputs.append(MODEL["forward"](layer, inputs[-1]))
    gradient, _ = MODEL["backward"](task.layers[top], inputs[-2], MODEL["error"](inputs[-1], task.target[number]))
    expect_chunks({one.chunk: one.values for one, _ in sent}, task.cut(top, gradient), "the last layer's gradients:")
    if others.early:
        raise Failure(f"there are {task.slots} slots: the next chunk of slot {others.early[0]} must wait until the slot is free")
    for one, to in sent:
        n = one.chunk % total
        if (one.slot, to) != (n % task.slots, address(n // task.chunks)):
            wording = f"slot {n % task.slots}, to worker {n // task.chunks} ({address(n // task.chunks)})"
            raise Failure(f"the layer's chunk {n} must go into {wording}; it goes into slot {one.slot}, to {to}")


@lab.task("a layer is gathered for each pass, and its owner updates it", points=15)
def passes(bench: Workbench) -> None:
    """The others have other parameters in each gather: what the worker computes shows which it uses."""
    task, others, number = alone(bench, True)
    shards = [layer[task.of(number)].copy() for layer in task.layers]
    momenta = [np.zeros_like(shard) for shard in shards]
    found, at, gathers, scatters = collectives(others), 0, 0, 0

    def gathered(layer: int) -> Floats:
        nonlocal at, gathers
        due = task.cut(layer, shards[layer].view(np.int32), number * task.chunks)
        about = f"step {step}: gather number {gathers} is of layer {layer}, as it is now:"
        expect_chunks({one.chunk: one.values for one, _ in (found[at] if at < len(found) else [])}, due, about)
        whole = others.given[gathers].copy()
        whole[task.of(number)] = shards[layer]
        at, gathers = at + 1, gathers + 1
        return whole

    for step in range(task.steps):
        inputs = [task.x[number]]
        for layer in range(task.depth):
            inputs.append(MODEL["forward"](gathered(layer), inputs[-1]))
        error = MODEL["error"](inputs.pop(), task.target[number])
        for layer in reversed(range(task.depth)):
            gradient, error = MODEL["backward"](gathered(layer), inputs.pop(), error)
            about = f"step {step}: layer {layer}'s gradients are those of the parameters that were gathered last:"
            sent = {one.chunk: one.values for one, _ in (found[at] if at < len(found) else [])}
            expect_chunks(sent, task.cut(layer, gradient), about)
            at += 1
            sums = others.sums[scatters]
            shards[layer], momenta[layer] = MODEL["update"](shards[layer], momenta[layer], sums, task.workers)
            scatters += 1


# --- everything together


def run(bench: Workbench, task: Task) -> Network:
    """The student's workers train through the student's switch; each must have its shards, bit for bit, and the sums."""
    came: dict[str, Counter[tuple[int, ...]]] = {f"h{worker + 1}": Counter() for worker in range(task.workers)}

    def watch(packet: OnLink) -> None:
        got = read(packet.data)
        if packet.source == "s1" and got is not None:
            came[packet.target][(got.kind, got.chunk, *got.values)] += 1

    network, started = Network(watch=watch), Started(bench, task.workers)
    names = [f"h{started.ports.index(port + 1) + 1}" for port in range(task.workers)]  # in the ports' order
    network.star("s1", started.switch, {name: bench.host("Worker", name, "sharded.py") for name in names}, LINK)
    try:
        network.run({f"h{worker + 1}": task.start(worker) for worker in range(task.workers)})
        trained, summed = task.trained()
        for worker in range(task.workers):
            expect_shards(network.results[f"h{worker + 1}"], np.concatenate([layer[task.of(worker)] for layer in trained]), worker)
            due: Counter[tuple[int, ...]] = Counter()
            for sums in summed:
                for layer, values in enumerate(sums):
                    cut = task.cut(layer, values[task.of(worker)], worker * task.chunks)
                    due.update((RESULT, chunk, *row) for chunk, row in cut.items())
            if lacking := due - came[f"h{worker + 1}"]:
                raise Failure(
                    f"worker {worker} has its parameters, but {lacking.total()} of {due.total()} sums of gradients have not "
                    "come to it as RESULT: the switch must add"
                )
    except Failure as failure:
        raise Failure(str(failure), "\n".join(filter(None, [failure.trace, shown(network.recent)]))) from None
    return network


def expect_shards(result: Any, expected: Floats, worker: int) -> None:
    found = expect_array(result, len(expected), "f", f"finish() of worker {worker}")
    wrong = np.flatnonzero(found != expected)
    if len(wrong):
        at = int(wrong[0])
        raise Failure(
            f"{len(wrong)} of {len(expected)} parameters of worker {worker} are wrong",
            f"The first is number {at}: it must be {expected[at]!r}, and is {found[at]!r}",
        )


@lab.task("the trained model is that of one worker with all the data", points=15)
def together(bench: Workbench) -> None:
    for workers, chunks, depth, steps in ((1, 2, 2, 2), (2, 5, 1, 3), (4, 3, 3, 3), (2, 1, 1, 130)):
        try:
            run(bench, Task(workers, chunks, depth, steps))
        except Failure as failure:
            raise Failure(f"{workers} workers, {depth} layers, {steps} steps: {failure}", failure.trace) from None


@lab.task("links carry no more than they must", points=5)
def carried(bench: Workbench) -> None:
    task = Task(workers=4, chunks=8, depth=2, steps=2)
    network = run(bench, task)
    frame, m = 24 + 4 * LANES, task.workers * task.chunks * task.depth * task.steps  # bytes, and chunks of all steps
    up, down = m * frame * (1 + 2 / 4), m * (frame * (2 * 3 / 4 + 1 / 4) + 24 * 3 / 4)
    for worker in range(task.workers):
        found = network.bytes_between(f"h{worker + 1}", "s1"), network.bytes_between("s1", f"h{worker + 1}")
        if found[0] > up or found[1] > down:
            raise Failure(f"worker {worker}'s link carries {found} bytes up and down; {(int(up), int(down))} are enough")
