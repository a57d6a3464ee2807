"""The simulator's switches over RoCE do what the model of queue pairs does that p4/switchml_rdma.p4 is held to, packet by packet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from inalab.hosts.roce.wire import IMMEDIATE_BYTES, RETH
from inalab.hosts.switchml import wire
from inalab.switches.loss import Loss
from inalab.switches.switchml import PARENT as UP
from inalab.testbed.simulator.library import SIMULATOR
from inalab.testbed.simulator.simulation import IDEAL, Job, Link, Network, build
from inalab.testbed.simulator.steps import Steps
from tests.inside import SIMULATED
from tests.packets import PARENT_PORT
from tests.properties import examples
from tests.rdma_packets import RdmaJob
from tests.roce import FIRST, ONLY, Roce
from tests.unit.test_rdma_program import STEPS, ModelRdma, arranged

WRITTEN = np.dtype([("header", wire.STATUS), ("psn", "<u4")])
CONNECTED = 1000  # the numbers of the model's packets to workers begin here, and the simulator's at 0
Left = tuple[int, int, int, int, int]  # by which port, what it lacks of headers, number; of a message's last, exponent and mark


def lacks(place: int, message: int) -> int:
    """Bytes that a packet is shorter than one which is a message of its own."""
    return RETH.itemsize * (place > 0) + IMMEDIATE_BYTES * (place < message - 1)


class Switch:
    """Of three workers, maybe with a switch above it; nothing else happens on its network."""

    def __init__(self, job: RdmaJob, loss: Loss | None = None) -> None:
        n = job.workers
        self.job, self.node, above = job, n, {0: (1, n)} if job.has_parent else {}
        network = Network([Link(0.0)] * (n + 1), 2, loss)
        own = Job([0] * n, range(n), above, [1], job.slots, Steps(np.zeros((n, 1))), asks=False, message=job.message)
        self.world = build(network, [own], IDEAL)

    def arrive(self, link: int, kind: int, pair: int, turn: int, place: int, psn: int = 0, exponent: int = 0, again: bool = False,
               length: int = 0) -> list[Left]:  # fmt: skip
        """A message's packet comes by a link; what leaves because of it."""
        world, ffi, message = self.world, SIMULATOR.ffi, self.job.message
        world.events.count = 0
        number = SIMULATED.new_packet(world)
        packet = world.packets[number]
        made: Any = np.zeros(1, WRITTEN)
        header, last = made["header"], place == message - 1
        header["kind"], header["version"], header["slot"] = kind, turn & 1, pair * message + place
        header["chunk"], made["psn"] = self.job.chunk(pair, turn) + place, psn
        header["exponent"], header["mark"] = (exponent, again) if last else (0, 0)
        ffi.memmove(packet.header, made.tobytes(), made.nbytes)
        packet.node, packet.child, packet.job, packet.tree, packet.link = self.node, -1 if link == UP else link, 0, 0, -1
        packet.length, packet.lacks = length, 0 if length else lacks(place, message)
        SIMULATED.switchml_switch(world, 0.0, number)
        events = sorted((event.order, event.what // 4) for event in world.events.events[0 : world.events.count])
        return [self._left(left) for _, left in events]

    def _left(self, number: int) -> Left:
        packet = self.world.packets[number]
        found = np.frombuffer(SIMULATOR.ffi.buffer(packet.header)[: WRITTEN.itemsize], WRITTEN)[0]
        up = packet.node > self.node
        told = (int(found["header"]["exponent"]), int(found["header"]["mark"])) if not packet.lacks & IMMEDIATE_BYTES else (0, 0)
        SIMULATED.drop(self.world, number)
        return PARENT_PORT if up else packet.node, packet.lacks, int(found["psn"]) + (0 if up else CONNECTED), *told


def as_left(port: int, packet: Roce) -> Left:
    told = packet.immediate or 0
    begins, ends = packet.opcode in (FIRST, ONLY), packet.immediate is not None
    return port, RETH.itemsize * (not begins) + IMMEDIATE_BYTES * (not ends), packet.psn, told >> 21 & 0x7F, told >> 31


@pytest.mark.parametrize("has_parent", [False, True], ids=["the root", "a rack's switch"])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_queue_pairs(size: int, has_parent: bool) -> None:
    """As test_rdma_program has it of the program: packets in any order, some twice and some never, of two rounds."""
    job = RdmaJob(3, size, has_parent=has_parent)
    links = [*range(job.workers), *([UP] if has_parent else [])]

    @given(STEPS)
    @examples(200)
    def run(steps: list[tuple[str, int]]) -> None:
        made, model, psns = Switch(job), ModelRdma(job), dict[tuple[int, int], int]()
        for worker in range(job.workers):
            for pair in range(job.pairs):
                made.arrive(worker, wire.KIND_CONNECT, pair, 0, 0, length=wire.STATUS.itemsize)
        for number, (what, n) in enumerate(steps):
            round_, place = divmod(number, len(links) * job.pairs)
            pair, link = place // len(links), links[place % len(links)]
            turn = max(0, round_ - (n % 5 == 0))  # now and then of the round before
            begin, exponent, again = psns.get((link, pair), n), n % 128, what == "again"
            psns[link, pair] = begin + size
            kind = wire.KIND_RESULT if link == UP else wire.KIND_UPDATE
            for i in arranged(what, size, n):
                left = made.arrive(link, kind, pair, turn, i, begin + i, exponent, again)
                assert left == [as_left(*out) for out in model.arrives(link, pair, turn, i, begin + i, exponent, again)]

    run()


def test_what_ends_at_a_switchs_egress_is_numbered_as_the_program_numbers_it() -> None:
    """What connects a queue pair, and a result for a worker that has not connected: both pass the control that loses packets."""
    made = Switch(RdmaJob(2, 1), Loss(good=1e-9))
    down = [made.world.lines[2 * worker + 1] for worker in range(2)]
    made.arrive(1, wire.KIND_CONNECT, 0, 0, 0, length=wire.STATUS.itemsize)
    assert [line.numbered for line in down] == [0, 1]
    assert made.arrive(0, wire.KIND_UPDATE, 0, 0, 0) == []
    assert [port for port, *_ in made.arrive(1, wire.KIND_UPDATE, 0, 0, 0)] == [1]
    assert [line.numbered for line in down] == [1, 2]


def test_no_packet_leaves_whose_message_has_not_begun() -> None:
    """As test_rdma_program has it of the program: a late packet of round 0 begins a message again in the set that round 2 has."""
    made = Switch(RdmaJob(2, 2, has_parent=True))
    for worker in range(2):
        made.arrive(worker, wire.KIND_CONNECT, 0, 0, 0, length=wire.STATUS.itemsize)
    for turn in range(3):
        for place in (0, 1, 0, 1):
            made.arrive(0, wire.KIND_UPDATE, 0, turn, place, 2 * turn + place)
            made.arrive(1, wire.KIND_UPDATE, 0, turn, place, 2 * turn + place)
        for place in range(2 if turn < 2 else 0):
            assert len(made.arrive(UP, wire.KIND_RESULT, 0, turn, place, 2 * turn + place)) == 2
        if turn == 1:
            assert len(made.arrive(0, wire.KIND_UPDATE, 0, 0, 0, 70)) == 1
    made.world.cells[1].final = True
    for place, psn in ((0, 95), (1, 96)):
        assert [port for port, *_ in made.arrive(0, wire.KIND_UPDATE, 0, 2, place, psn)] == [PARENT_PORT] * (place == 0)
