"""What ATP's server adds: the ends of int32, racks that resend as one, windows that servers do not divide, raw values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inalab.hosts.atp import release, wire
from inalab.hosts.atp.allocation import beginning
from inalab.hosts.atp.merger import Merger
from inalab.hosts.atp.server import AtpServer
from inalab.hosts.atp.tree import Tree
from inalab.hosts.collective import Membership
from inalab.hosts.drivers.server import ServerDriver
from inalab.hosts.tcp.requests import Requested
from tests.fake_network import Answer, FakeNetwork, FakeSocket
from tests.merging import merger_of, take
from tests.unit.test_atp_hosts import EPOCH, RACKS, K, gradient

LARGEST = 2**31 - 1
AGGREGATORS = 4096


def one_rack(workers: int) -> Tree:
    return Tree(Membership(0, 0, workers, [list(range(workers))]), 0)


def server(tree: Tree, window: int = 2, number: int = 0, servers: int = 1) -> Merger:
    return merger_of((0, EPOCH, tree), window, K, AGGREGATORS, (number, servers))


def summed(values: list[int]) -> tuple[int, list[int]]:
    """The flags and the vector that a server answers workers with."""
    tree = one_rack(len(values))
    made = server(tree)
    (row,), *_ = take(made, np.concatenate([gradient(0, rank, tree, value) for rank, value in enumerate(values)]))
    return int(made.results["flags"][row]), list(made.results["vector"][row])


@pytest.mark.parametrize("values", [[2**30, 2**30 - 1], [-(2**30), 1 - 2**30], [LARGEST, 1, -1]])
def test_sums_that_fit_are_sums(values: list[int]) -> None:
    assert summed(values) == (0, [sum(values)] * K)


@pytest.mark.parametrize("values", [[2**30, 2**30], [-(2**30), -(2**30) - 1], [LARGEST, LARGEST, 1]])
def test_a_sum_of_two_to_the_31_or_beyond_is_none(values: list[int]) -> None:
    assert summed(values) == (wire.OVERFLOW, [0] * K)


def test_a_whole_rack_that_sends_again_gets_the_result_for_each_of_its_workers() -> None:
    tree = Tree(RACKS, 0)
    made = server(tree)
    (row,), *_ = take(made, np.concatenate([gradient(0, rank, tree, 1) for rank in range(5)]))
    whole = gradient(0, 2, tree, 3, wire.RESEND)
    whole["bitmap0"] = 0
    assert take(made, whole)[1] == [(row, 2), (row, 3), (row, 4)]
    whole["bitmap0"] = 0b110
    assert take(made, whole)[1] == [(row, 3), (row, 4)]


@pytest.mark.parametrize(("window", "servers"), [(3, 2), (4, 2), (6, 4), (5, 5), (2, 3)])
def test_a_server_knows_the_aggregators_of_all_its_chunks(window: int, servers: int) -> None:
    """Chunk q has place q mod w and server q mod S, whether S divides w or not."""
    of_place = beginning(0, window, AGGREGATORS)[0]
    assert len(set(of_place)) == window
    for number in range(servers):
        chunks = range(number, 4 * window * servers, servers)
        made = server(one_rack(2), window, number, servers)
        assert set(np.flatnonzero(made.assigned)) == {int(of_place[chunk % window]) for chunk in chunks}


def test_another_servers_chunk_is_not_added() -> None:
    tree = one_rack(1)
    made = server(tree, window=4, number=1, servers=2)
    for chunk in range(4):
        assert len(take(made, gradient(chunk, 0, tree, 5))[0]) == chunk % 2


def test_raw_floats_are_added_in_double_precision() -> None:
    values = np.array([2**24, 1, -(2**24)], np.float32)  # in single precision the 1 is lost
    tree = one_rack(3)
    made = server(tree)
    take(made, np.concatenate([gradient(0, rank, tree, LARGEST) for rank in range(3)]))
    for rank, value in enumerate(values):
        packet = gradient(0, rank, tree, 0, wire.RESEND)
        packet["kind"], packet["vector"] = wire.KIND_RAW, np.full(K, value).view(np.int32)
        finished, _, *_ = take(made, packet)
    (row,) = finished
    assert list(made.results["vector"][row].astype(np.int32).view(np.float32)) == [1.0] * K


def announcement(chunk: int, rank: int, tree: Tree, tag: int, exponent: int) -> np.ndarray:
    """A bare gradient; what is behind its header lies where a vector would."""
    made = gradient(chunk, rank, tree, 0)
    made["vector"][0, :2] = np.array([tag, exponent << 24], np.uint32).view(np.int32)
    return made


def test_announcements_are_added_by_tags_and_largest_exponents() -> None:
    tree = one_rack(3)
    made = server(tree)
    its = [announcement(0, rank, tree, 2**24 - 1, 90 + 50 * (rank == 1)) for rank in range(3)]
    ((row,), *_) = take(made, np.concatenate(its), bare=True)
    found = np.frombuffer(made.results[row].tobytes()[: wire.BARE.itemsize], wire.BARE)[0]
    assert (found["tag"], found["exponent"], found["flags"], made.rows["bare"][row]) == (3 * (2**24 - 1), 140, 0, True)


@pytest.mark.parametrize("bare", [False, True])
def test_what_is_bare_and_what_has_a_vector_are_not_added(bare: bool) -> None:
    """In whatever order they come; whoever waits for the sum learns that somebody is missing."""
    tree = one_rack(2)
    made = server(tree)
    assert take(made, announcement(0, 0, tree, 5, 100), bare=bare).finished == []
    assert take(made, announcement(0, 1, tree, 5, 100), bare=not bare).finished == []
    assert list(made.missing(0)) == [False, True]


def test_where_tags_differ_the_announcements_themselves_are_added() -> None:
    tree = one_rack(2)
    made = server(tree)
    ((row,), *_) = take(made, np.concatenate([announcement(0, rank, tree, 5 + rank, 100) for rank in (0, 1)]), bare=True)
    for rank in (0, 1):
        own = gradient(0, rank, tree, 1000 + rank, wire.RESEND | wire.INTEGER)
        own["kind"] = wire.KIND_RAW
        assert take(made, own).finished == [row] * rank
    assert made.results["flags"][row] == wire.OVERFLOW | wire.RAW | wire.RESEND and not made.rows["bare"][row]
    assert list(made.results["vector"][row]) == [2001] * K


def test_new_aggregators_after_each_collision() -> None:
    """A place whose aggregator is taken again and again gets one that differs each time, and that the other place does not have."""
    tree = one_rack(1)
    made = server(tree)
    index, others = (int(n) for n in beginning(0, 2, AGGREGATORS)[0])
    seen = {index, others}
    for chunk in range(0, 12, 2):
        (row,), *_ = take(made, gradient(chunk, 0, tree, 1, wire.COLLISION, index))
        index = int(made.results["next_index"][row])
        assert index not in seen
        assert made.held.sum() == 2 and made.held[[index, others]].tolist() == [1, 1]
        seen.add(index)


@pytest.mark.parametrize(("own", "others"), [(31, [1]), (30, [1, 1]), (29, [1, 0, 1])])
def test_workers_and_racks_whose_bits_would_meet_are_refused(own: int, others: list[int]) -> None:
    def tree(workers: int) -> Tree:
        sizes = [workers, *others]
        first = np.concatenate([[0], np.cumsum(sizes)])
        racks = [list(range(first[r], first[r] + size)) for r, size in enumerate(sizes)]
        return Tree(Membership(0, 0, sum(sizes), racks), 0)

    with pytest.raises(ValueError, match="do not fit"):
        tree(own)
    fits = tree(own - 1)
    bits = [fits.bitmaps(rank)[1] for rank in range(own - 1 + sum(others))]
    assert len(set(bits)) == own - 1 + sum(size > 0 for size in others)


def query(chunk: int, rank: int, tree: Tree, raw: bool = False, rack: bool = False, marks: int = wire.RESEND) -> np.ndarray:
    """A worker's query, whose result is lost as far as it knows; with `rack`, as it leaves a switch that has its whole rack."""
    packet = gradient(chunk, rank, tree, 0)
    packet["kind"], packet["flags"], packet["next_index"] = wire.KIND_QUERY, wire.RAW * raw | marks, 5 * wire.RANKS + rank
    if rack:
        packet["bitmap0"] = 0
    return packet


def answers(made: Merger, *queries: np.ndarray) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, list[int]]]]:
    """Results as (chunk, worker, rack); statuses as (asking worker, flags, who is in as the worker reads it)."""
    replies = take(made, np.concatenate(queries))
    statuses = replies.statuses
    seen = made.tree.who(statuses["bitmap0"], statuses["bitmap1"])
    assert (statuses["kind"] == wire.KIND_STATUS).all() and (statuses["next_index"] // wire.RANKS == 5).all()
    wording = [
        (int(s["next_index"]) % wire.RANKS, int(s["flags"]), list(map(int, np.flatnonzero(who))))
        for s, who in zip(statuses, seen, strict=True)
    ]
    return [(int(made.rows["chunk"][row]), worker, rack) for row, worker, rack in replies.ready], wording


def test_a_server_tells_each_worker_who_is_in_and_how_to_send_again() -> None:
    tree = Tree(RACKS, 0)
    made = server(tree)
    assert answers(made, query(0, 0, tree), query(1, 3, tree)) == ([], [(0, wire.ASKED, []), (3, wire.ASKED, [])])
    take(made, np.concatenate([gradient(0, 0, tree, 1), gradient(0, 3, tree, 1)]))
    _, wording = answers(made, query(0, 0, tree), query(0, 1, tree), query(0, 2, tree), query(0, 3, tree))
    assert [(rank, flags) for rank, flags, _ in wording] == [(rank, wire.RESEND) for rank in range(4)]
    assert [rank in seen for rank, _, seen in wording] == [True, False, False, True]
    take(made, np.concatenate([gradient(0, rank, tree, 1) for rank in (1, 2, 4)]))
    assert not made.results["flags"][0]
    assert answers(made, query(0, 1, tree, marks=0), query(0, 2, tree, rack=True, marks=0)) == ([], [])  # it is on its way
    assert answers(made, query(0, 1, tree, marks=wire.ASKED)) == ([(0, 1, 0)], [])
    made.results["flags"][0] = 0
    assert answers(made, query(0, 1, tree), query(0, 1, tree), query(0, 2, tree, rack=True)) == ([(0, -1, 1), (0, 1, 0)], [])
    assert made.results["flags"][0] == wire.RESEND  # a round trip that contains somebody's waiting tells nothing of the network


def test_a_server_tells_who_has_sent_raw_values() -> None:
    """Whoever has not heard that integers will not do is told so; whoever has sends its values again where they are lacking."""
    tree = one_rack(2)
    made = server(tree)
    take(made, np.concatenate([gradient(0, rank, tree, 2**30) for rank in range(2)]))
    raw = gradient(0, 1, tree, 2**30, wire.RESEND | wire.INTEGER)
    raw["kind"] = wire.KIND_RAW
    take(made, raw)
    assert answers(made, query(0, 0, tree)) == ([(0, 0, 0)], [])
    assert answers(made, query(0, 0, tree, raw=True), query(0, 1, tree, raw=True)) == (
        [], [(0, wire.RAW | wire.RESEND, [1]), (1, wire.RAW | wire.RESEND, [1])],
    )  # fmt: skip
    raw = gradient(0, 0, tree, 2**30, wire.RESEND | wire.INTEGER)
    raw["kind"] = wire.KIND_RAW
    take(made, raw)
    assert answers(made, query(0, 0, tree, raw=True)) == ([(0, 0, 0)], [])


def test_a_server_answers_no_query_of_another_group_about_what_all_have_or_from_nobody() -> None:
    tree = one_rack(2)
    made = server(tree)
    for chunk in (0, 2, 4):
        take(made, np.concatenate([gradient(chunk, rank, tree, 1) for rank in range(2)]))
    stranger, outdated = query(4, 0, tree), query(4, 0, tree)
    stranger["next_index"] = 2
    outdated["epoch"] = EPOCH - 1
    assert answers(made, query(0, 0, tree), stranger, outdated) == ([], [])


def test_places_go_on_alone_at_every_server() -> None:
    """One place of the window may be many chunks ahead of another that waits for a chunk, whichever server adds them."""
    tree = one_rack(2)
    for servers, window in ((1, 3), (2, 3), (3, 4)):
        made = [server(tree, window, number, servers) for number in range(servers)]
        for chunk in range(0, 40 * window, window):
            at = made[chunk % servers]
            (row,), *_ = take(at, np.concatenate([gradient(chunk, rank, tree, chunk) for rank in range(2)]))
            assert list(at.results["vector"][row]) == [2 * chunk] * K


@pytest.mark.parametrize("servers", [1, 2])
def test_a_row_that_is_complete_is_not_begun_anew_in_the_same_batch(servers: int) -> None:
    """Or the part of the sum that is there of the later chunk would be sent as its result."""
    tree, window = one_rack(2), 4
    made = server(tree, window, 0, servers)
    for chunk in range(0, window + 1, servers):
        take(made, gradient(chunk, 0, tree, 10))
    later = gradient(2 * window, 0, tree, 5)
    replies = take(made, np.concatenate([gradient(0, 1, tree, 20), later, query(0, 1, tree)]))
    assert (replies.finished, replies.ready) == ([0], [])  # nor is somebody told twice
    assert made.rows["chunk"][0] == 0 and list(made.results["vector"][0]) == [30] * K and not made.results["flags"][0]
    take(made, later)
    assert made.rows["chunk"][0] == 2 * window and not made.rows["complete"][0]


# --- release


def releasing(answer: Answer) -> tuple[ServerDriver, FakeSocket, FakeNetwork]:
    """The server of three workers in two racks, which holds aggregators 5 and 9 of both racks' switches; `answer` plays those."""
    network = FakeNetwork(answer)
    core = AtpServer(Membership(3, 3, 3, [[0, 1], [2]]), EPOCH, [1], 2, 2, K, AGGREGATORS, (0.0, 0.0))
    core.merger.assigned[:] = False
    core.merger.assigned[[5, 9]] = True
    made = ServerDriver(core, network, ("", 0), [("", 0)] * 5, 2, Requested(EPOCH, [], 8))
    net: Any = made.endpoint
    return made, net, network


HELD = {(rack, index) for rack in (0, 1) for index in (5, 9)}


def confirmed(packet: np.ndarray, epoch: int = EPOCH) -> np.ndarray:
    made = packet.copy()
    made["kind"], made["epoch"] = wire.KIND_RELEASED, epoch
    return made


def test_a_server_has_every_switch_free_what_the_job_holds() -> None:
    made, net, _ = releasing(lambda packet, rack: [(0.01, confirmed(packet))])
    made.finish()
    assert {(rack, int(packet["index"])) for _, rack, packet in net.sent} == HELD and len(net.sent) == 4
    for _, rack, packet in net.sent:
        assert (int(packet["next_index"]), int(packet["epoch"]), int(packet["owner"]) >> 24) == (rack, EPOCH, 3)
        assert packet["kind"] == wire.KIND_RELEASE


def test_a_server_believes_no_confirmation_of_another_group_nor_another_packet() -> None:
    """It asks again, and those alone who have not confirmed."""
    asked: list[tuple[int, int]] = []

    def answer(packet: np.ndarray, rack: int) -> list[tuple[float, np.ndarray]]:
        asked.append((rack, int(packet["index"])))
        if asked.count(asked[-1]) > 1 or asked[-1] == (0, 9):
            return [(0.01, confirmed(packet))]
        return [(0.01, confirmed(packet, EPOCH - 1)), (0.01, packet.copy())]

    made, _, _ = releasing(answer)
    made.finish()
    assert {where: asked.count(where) for where in asked} == {where: 1 + (where != (0, 9)) for where in HELD}


def test_a_server_gives_up_on_switches_that_confirm_nothing() -> None:
    """Meanwhile it asks less and less often, at most every half a second."""
    made, net, clock = releasing(lambda packet, rack: [])
    begun = clock.now
    made.finish()
    assert clock.now - begun == pytest.approx(release.PATIENCE, abs=10 * release.WAIT)
    waits = np.diff(sorted({when for when, *_ in net.sent}))
    assert waits[:3] == pytest.approx([release.WAIT, 2 * release.WAIT, 4 * release.WAIT])
    assert waits[4:] == pytest.approx(np.full(len(waits) - 4, 10 * release.WAIT))
