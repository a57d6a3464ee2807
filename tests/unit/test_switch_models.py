"""The simulator's models of switches do what the models do that the P4 programs are held to, packet by packet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inalab.hosts.atp import wire as atp_wire
from inalab.hosts.switchml import wire
from inalab.schemes.atp import AGGREGATOR_LIFETIME
from inalab.testbed.simulator.library import SIMULATOR
from inalab.testbed.simulator.simulation import IDEAL, Job, Link, Network, build
from inalab.testbed.simulator.steps import Steps
from tests.atp_reference import Gradient, ModelAtpSwitch, Query, Status
from tests.inside import SIMULATED
from tests.properties import examples
from tests.reference import QUERY, RESULT, STATUS, UPDATE, Message, ModelSwitch

WORKERS, RACK, OTHER_RACK, ROOT = 5, 5, 6, 7  # three workers below a rack's switch, two below another's, and a root; then a server
SLOTS, AGGREGATORS = 2, 3
KINDS = {UPDATE: wire.KIND_UPDATE, RESULT: wire.KIND_RESULT, QUERY: wire.KIND_QUERY, STATUS: wire.KIND_STATUS}
JOINS = atp_wire.JOINS


class Switches:
    """Of a network on which nothing else happens."""

    def __init__(self, **own: Any) -> None:
        network = Network([Link(0.0)] * 8, 3)
        above = {0: (2, 6), 1: (2, 7)}
        self.world = build(network, [Job([0, 0, 0, 1, 1], range(5), above, [1], SLOTS, Steps(np.zeros((5, 1))), **own)], IDEAL)
        self.now = 0.0

    def arrive(
        self, header: np.ndarray, node: int, child: int = -1, goal: int = 0, length: int = 0
    ) -> list[tuple[int, int, np.void]]:
        """A packet of this length (0: with a vector) arrives at a switch; what leaves because of it: for which nodes, with which
        lengths, and the headers."""
        world, ffi = self.world, SIMULATOR.ffi
        world.events.count = 0
        number = SIMULATED.new_packet(world)
        packet = world.packets[number]
        ffi.memmove(packet.header, header.tobytes(), header.nbytes)
        packet.node, packet.child, packet.goal, packet.job, packet.tree, packet.link = node, child, goal, 0, 0, -1
        packet.length, packet.due, packet.start = length, 0.0, 0.0
        take = SIMULATED.atp_switch if world.jobs[0].atp else SIMULATED.switchml_switch
        take(world, self.now, number)
        found = []
        for event in sorted((world.events.events[i].order, world.events.events[i].what) for i in range(world.events.count)):
            left = event[1] // 4
            octets = ffi.buffer(world.packets[left].header)[: header.dtype.itemsize]
            found.append((world.packets[left].node, world.packets[left].length, np.frombuffer(octets, header.dtype)[0]))
            SIMULATED.drop(world, left)
        return found


# --- SwitchML

messages = st.tuples(
    st.sampled_from([UPDATE] * 5 + [QUERY] * 3 + [RESULT, STATUS]), st.integers(0, 2), st.sampled_from([0, 0, 0, 0, 0, 1, 2]),
    st.sampled_from([0, 0, 0, SLOTS - 1]), st.integers(0, 9), st.booleans(), st.booleans(), st.integers(0, 7),
    st.sampled_from([False] * 5 + [True]),
)  # fmt: skip


def bits(seen: int) -> frozenset[int]:
    return frozenset(bit for bit in range(32) if seen >> bit & 1)


def answered(model: ModelSwitch, m: Message) -> tuple[str, Message] | None:
    if m.kind == STATUS:
        return model.status(m, 0 in m.seen)
    return {UPDATE: model.update, QUERY: model.query, RESULT: model.result}[m.kind](m)


@pytest.mark.parametrize(("node", "workers"), [(RACK, 3), (ROOT, 2)])
def test_a_pool(node: int, workers: int) -> None:
    @examples(400)
    @given(st.lists(messages, min_size=20, max_size=80))
    def run(script: list[tuple[str, int, int, int, int, bool, bool, int, bool]]) -> None:
        made, model = Switches(), ModelSwitch(workers, has_parent=node == RACK)
        for kind, worker, turn, slot, exponent, again, insists, seen, other in script:
            from_above = kind in (RESULT, STATUS)
            if from_above and node == ROOT:
                continue
            bare = (turn == 1) != other
            vector = () if bare or kind in (QUERY, STATUS) else (1,)
            length = 0 if vector else wire.BARE.itemsize if kind in (UPDATE, RESULT) else wire.STATUS.itemsize
            m = Message(
                kind, 1, worker % workers, turn % 2, slot, turn * SLOTS + slot, exponent, vector, again, insists, bits(seen)
            )
            header = np.zeros(1, wire.STATUS)
            header["kind"], header["version"], header["slot"], header["chunk"] = KINDS[kind], m.version, slot, m.chunk
            header["exponent"], header["seen"] = exponent, seen if kind == STATUS else 0
            if kind == QUERY:
                header["mark"] = wire.MARK_INSISTS if insists else again
            left = made.arrive(header, node, -1 if from_above else m.worker, length=length)
            assert left_as(left, node, workers) == expected(answered(model, m), node, workers)

    run()


Left = list[tuple[int, bool, int, int, int, frozenset[int]]]  # to which node; with a vector? kind, chunk, exponent, seen


def left_as(left: list[tuple[int, int, np.void]], node: int, workers: int) -> Left:
    return [
        (to, length == 0, int(p["kind"]), int(p["chunk"]), 0 if p["kind"] in (wire.KIND_STATUS, wire.KIND_QUERY) else int(p["exponent"]),
         bits(int(p["seen"])) if p["kind"] == wire.KIND_STATUS else frozenset())
        for to, length, p in left
    ]  # fmt: skip


def expected(predicted: tuple[str, Message] | None, node: int, workers: int) -> Left:
    if predicted is None:
        return []
    where, out = predicted
    first = 0 if node == RACK else RACK
    goals = {"all": range(first, first + workers), "one": [first + out.worker], "up": [ROOT]}[where]
    exponent = 0 if out.kind in (STATUS, QUERY) else out.exponent
    seen = out.seen if out.kind == STATUS else frozenset()
    return [(to, bool(out.vector), KINDS[out.kind], out.chunk, exponent, seen) for to in goals]


# --- ATP

REMOTE_BIT = 31  # of rack 0 at the server, which is in rack 1
Sent = tuple[str, int, int, int, int, int]  # kind, bits of workers and of children, sequence, aggregator, flags
visits = st.tuples(
    st.sampled_from(["gradient"] * 6 + ["query"] * 3 + ["status"] * 2 + ["result"]), st.integers(1, 7), st.booleans(),
    st.sampled_from([0, 0, 0, 0, 0, 1, 2]), st.sampled_from([0, 0, 0, 0, AGGREGATORS - 1]), st.sampled_from([0, 0, 0, atp_wire.RESEND, JOINS]), st.booleans(),
    st.booleans(), st.sampled_from([0.0, 0.0, 0.0, 0.6, 1.1]),
)  # fmt: skip


def header_of(kind: str, workers: int, children: int, sequence: int, index: int, flags: int) -> np.ndarray:
    made = np.zeros(1, atp_wire.HEADER)
    made["kind"] = {
        "gradient": atp_wire.KIND_GRADIENT, "query": atp_wire.KIND_QUERY, "status": atp_wire.KIND_STATUS,
        "result": atp_wire.KIND_RESULT,
    }[kind]  # fmt: skip
    made["bitmap0"], made["bitmap1"], made["owner"], made["index"], made["flags"] = workers, children, sequence, index, flags
    return made


def model_of(kind: str, workers: int, children: int, sequence: int, index: int, flags: int) -> Any:
    common: Any = (1, (0, sequence), index, bits(workers), bits(children))
    resend, asked, ecn = bool(flags & atp_wire.RESEND), bool(flags & atp_wire.ASKED), bool(flags & atp_wire.ECN)
    if kind == "gradient":
        return Gradient(*common, (), resend, bool(flags & atp_wire.COLLISION), False, ecn, asked)
    return Query(*common, asked) if kind == "query" else Status(*common, asked=asked, ecn=ecn, resend=resend)


def visited(model: ModelAtpSwitch, made: Any) -> Any:
    if isinstance(made, Gradient):
        return model.gradient(made)
    return model.query(made) if isinstance(made, Query) else model.status(made)


def seen_as(left: list[tuple[int, int, np.void]]) -> Iterator[tuple[int, Any]]:
    names = {atp_wire.KIND_GRADIENT: "gradient", atp_wire.KIND_QUERY: "query", atp_wire.KIND_STATUS: "status"}
    for to, _, p in left:
        made = (names[int(p["kind"])], *(int(p[name]) for name in ("bitmap0", "bitmap1", "owner", "index", "flags")))
        yield to, model_of(*made)


@pytest.mark.parametrize("level", [0, 1])
def test_aggregators(level: int) -> None:
    node, above = (RACK, ROOT) if level == 0 else (OTHER_RACK, ROOT + 1)  # the server's rack is next to it

    @examples(400)
    @given(st.lists(visits, min_size=20, max_size=80))
    def run(script: list[tuple[str, int, bool, int, int, int, bool, bool, float]]) -> None:
        made = Switches(servers=[(1, 5)], aggregators=AGGREGATORS)
        model = ModelAtpSwitch(level, 3, REMOTE_BIT, AGGREGATOR_LIFETIME)
        model.epochs[0] = 1
        for kind, who, part, sequence, index, marks, collision, ecn, later in script:
            made.now += later
            model.now = made.now
            children = (who & 3) | (who >> 2) << REMOTE_BIT
            zero, one = (who, 1 << REMOTE_BIT) if level == 0 else (who * (part and children == 1 << REMOTE_BIT), children)
            if kind == "status" and level == 0:
                zero, one = 0, (1 << REMOTE_BIT) * part | 1
            flags = marks | atp_wire.COLLISION * (collision and kind == "gradient") | atp_wire.ECN * (ecn and kind == "gradient")
            packet = (kind, zero, one, sequence, index, flags)
            goal = 0 if level == 0 else 3
            if kind == "result":
                left = made.arrive(header_of(*packet), node, goal=node)
                model.result(1, (0, sequence), index)
                assert [to for to, *_ in left] == ([0, 1, 2] if level == 0 else [3, 4, ROOT])
                continue
            out = visited(model, model_of(*packet))
            wanted = [] if out is None else [(goal if isinstance(out, Status) else above, out)]
            assert list(seen_as(made.arrive(header_of(*packet), node, goal=goal))) == wanted

    run()
