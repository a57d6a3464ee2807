"""ATP's hosts without a network: bitmaps, aggregators, the window, what a server adds, and several jobs in settings."""

from __future__ import annotations

import numpy as np
import pytest

from inalab.hosts.atp import wire
from inalab.hosts.atp.allocation import beginning
from inalab.hosts.atp.congestion import A2TP, CONTROLS, MARKS, NONE, PAPER
from inalab.hosts.atp.merger import Merger
from inalab.hosts.atp.tree import Tree
from inalab.hosts.collective import Membership
from inalab.hosts.cores import enum, ffi, library
from inalab.testbed.plan.settings import SettingsError, TrialSettings, make_settings
from inalab.testbed.trial.job_run import together
from tests.merging import merger_of, take

K = 4
SMALLEST = 4.0  # congestion.c
EPOCH = 7
RACKS = Membership(0, 0, 5, [[0, 1], [2, 3, 4]])


def gradient(chunk: int, rank: int, tree: Tree, value: int, flags: int = 0, index: int = 0) -> np.ndarray:
    packet = np.zeros(1, wire.packet(K))
    packet["bitmap0"], packet["bitmap1"] = tree.bitmaps(rank)
    packet["kind"], packet["flags"], packet["index"], packet["vector"] = wire.KIND_GRADIENT, flags, index, value
    packet["owner"], packet["epoch"] = wire.owners(0, np.array([chunk])), EPOCH
    return packet


def merger(window: int = 2, tree: Tree | None = None, aggregators: int = 64) -> Merger:
    return merger_of((0, EPOCH, tree or Tree(RACKS, 0)), window, K, aggregators)


class CongestionWindow:
    """Of a worker (congestion.c)."""

    def __init__(self, largest: int, control: str = MARKS) -> None:
        self.c = ffi.new("CongestionWindow *")
        library().window_init(self.c, largest, CONTROLS.index(control))

    def settled(self, chunks: int) -> None:
        library().window_settled(self.c, chunks)

    def congested(self, number: int, following: int) -> None:
        library().window_congested(self.c, number, following)

    def lost(self, chunk: int, number: int, following: int) -> None:
        library().window_lost(self.c, chunk, number, following)

    def collided(self, chunk: int) -> None:
        library().window_collided(self.c, chunk)

    def result(self, collided: bool, number: int, following: int) -> None:
        library().window_result(self.c, collided, number, following)

    @property
    def room(self) -> float:
        return float(library().window_room(self.c))

    @property
    def size(self) -> float:
        return float(self.c.size)

    @property
    def chunks(self) -> int:
        return int(self.c.size)


def test_bits_of_own_workers_and_of_other_racks_do_not_meet() -> None:
    tree = Tree(RACKS, 0)
    assert [tree.bitmaps(rank) for rank in range(5)] == [(0, 1), (0, 2), (1, 1 << 30), (2, 1 << 30), (4, 1 << 30)]
    who = tree.who(np.array([0, 0b101, 0], np.uint32), np.array([0b11, 1 << 30, 1 << 30 | 1], np.uint32))
    assert [list(np.flatnonzero(row)) for row in who] == [[0, 1], [2, 4], [0, 2, 3, 4]]
    with pytest.raises(ValueError, match="do not fit into 32 bits"):
        Tree(Membership(0, 0, 33, [list(range(31)), [31], [32]]), 0)


def test_aggregators_are_spread_and_the_same_for_everybody() -> None:
    def of_all(job: int, attempt: int) -> np.ndarray:
        return np.array([library().atp_aggregator(job, place, attempt, 64) for place in range(4096)])

    found = of_all(3, 0)
    assert (found == of_all(3, 0)).all()
    assert np.bincount(found, minlength=64).min() > 30
    for other in (of_all(4, 0), of_all(3, 1)):
        assert (found == other).mean() < 0.1


@pytest.mark.parametrize(("window", "aggregators"), [(64, 128), (64, 192), (7, 8), (4, 4096)])
def test_two_places_of_a_job_have_aggregators_of_their_own(window: int, aggregators: int) -> None:
    index, _, held = beginning(3, window, aggregators)
    assert len(set(index)) == held.sum() == window and held.max() == 1
    assert (held[index] == 1).all()


def test_in_a_small_table_places_share() -> None:
    _, attempts, held = beginning(3, 64, 5)
    assert held.sum() == 64 and held.min() > 0 and attempts.max() < enum("atp_allocation")["MOST_ATTEMPTS"]


def test_the_window_opens_slowly_is_halved_once_and_restored_after_a_collision() -> None:
    window = CongestionWindow(64, PAPER)
    assert window.chunks == 64
    window.congested(10, following=64)
    window.congested(40, following=70)  # was under way when the window was cut
    assert window.chunks == 32
    window.settled(32)
    assert window.chunks == 33
    window.lost(70, 70, following=100)
    assert window.chunks == 16
    window.collided(70)
    assert window.chunks == 33
    for chunk in range(100, 200):
        window.lost(chunk, chunk, following=chunk)
    assert window.size == SMALLEST
    fixed = CongestionWindow(8, NONE)
    fixed.lost(0, 0, 8)
    fixed.congested(0, 8)
    assert fixed.chunks == 8


def test_collisions_cut_a_window_of_their_own_by_their_share() -> None:
    """With the mean of many windows, as in DCTCP; and marks the other one. The smaller one counts."""
    window, number = CongestionWindow(64, A2TP), 0
    for _ in range(200):  # a window at a time, a half of which collides: it settles where the cut is one chunk
        chunks = int(window.room)
        for n in range(chunks):
            window.result(n % 2 == 0, number + n, number + chunks)
        number += chunks
    assert window.size == 64 and 4 <= window.room <= 6
    for _ in range(200):
        window.result(False, number, number + 1)
        number += 1
    assert window.room == 64
    window.congested(number, number + 1)
    assert window.room == window.size == 32
    plain = CongestionWindow(64)
    plain.result(True, 0, 64)
    assert plain.room == 64


def test_a_loss_without_a_mark_leaves_the_window_as_it_is() -> None:
    window = CongestionWindow(64)
    window.lost(10, 10, following=64)
    window.collided(10)
    assert window.chunks == 64
    window.congested(10, following=64)
    assert window.chunks == 32


def test_a_server_adds_each_worker_once_whatever_comes() -> None:
    made = merger()
    tree = made.tree
    whole = np.concatenate([gradient(0, rank, tree, 10**rank) for rank in range(4)])
    finished, asked, *_ = take(made, np.concatenate([whole, whole[2:], whole[:1]]))
    assert not len(finished) and not asked
    part = gradient(0, 4, tree, 20_000)
    part["bitmap0"] = 0b110  # workers 3 and 4, but 3 is in
    assert not len(take(made, part)[0])
    assert list(np.flatnonzero(made.missing(0))) == [4]
    (row,), *_ = take(made, gradient(0, 4, tree, 10_000))
    assert list(made.results["vector"][row]) == [11_111] * K
    assert take(made, gradient(0, 1, tree, 5, wire.RESEND))[1] == [(row, 1)]  # has not got its result


@pytest.mark.parametrize("epoch", [EPOCH - 1, EPOCH + 1])
def test_a_server_takes_no_packets_of_another_group(epoch: int) -> None:
    made = merger()
    others = np.concatenate([gradient(0, rank, made.tree, 100) for rank in range(5)])
    others["epoch"] = epoch
    assert not len(take(made, others)[0]) and made.outdated == 5
    (row,), *_ = take(made, np.concatenate([gradient(0, rank, made.tree, 1) for rank in range(5)]))
    assert list(made.results["vector"][row]) == [5] * K and made.outdated == 5


def test_two_chunks_of_one_row_in_one_batch_do_not_mix() -> None:
    """A late resend of an old chunk arrives together with what is two windows ahead of it."""
    made = merger(window=2)
    for chunk in range(4):
        take(made, np.concatenate([gradient(chunk, r, made.tree, 1) for r in range(5)]))
    take(made, np.concatenate([gradient(4, 0, made.tree, 1000), gradient(0, 1, made.tree, 10, wire.RESEND)]))
    (row,), *_ = take(made, np.concatenate([gradient(4, r, made.tree, 1) for r in range(1, 5)]))
    assert list(made.results["vector"][row]) == [1004] * K


def test_a_chunk_that_nobody_can_send_yet_changes_nothing() -> None:
    made = merger(window=2)
    assert not len(take(made, gradient(1000, 0, made.tree, 9))[0])
    assert made.core.newest == 0
    (row,), *_ = take(made, np.concatenate([gradient(0, r, made.tree, 1) for r in range(5)]))
    assert list(made.results["vector"][row]) == [5] * K


def test_a_server_keeps_two_windows_and_ignores_what_is_older() -> None:
    made = merger(window=2)
    everybody = lambda chunk: np.concatenate([gradient(chunk, r, made.tree, chunk) for r in range(5)])  # noqa: E731
    for chunk in range(6):
        assert len(take(made, everybody(chunk))[0]) == 1
    assert take(made, gradient(2, 0, made.tree, 9, wire.RESEND))[1]  # within the last two windows: is answered
    finished, asked, *_ = take(made, gradient(1, 0, made.tree, 9, wire.RESEND))
    assert not len(finished) and not asked
    far = wire.SEQUENCES + 3
    made.core.newest = far - 1
    made.rows["chunk"] = far - 4 + np.arange(4)[np.argsort(np.arange(far - 4, far) % 4)]
    (row,), *_ = take(made, everybody(far))
    assert made.rows["chunk"][row] == far and made.results["owner"][row] == 3


def test_after_a_collision_the_server_hands_back_another_aggregator() -> None:
    made = merger(aggregators=4096)
    for chunk, flags in ((0, 0), (2, wire.COLLISION)):
        (row,), *_ = take(
            made, np.concatenate([gradient(chunk, r, made.tree, 1, flags if r == 3 else 0, index=77) for r in range(5)])
        )
        assert made.results["index"][row] == 77
        assert (made.results["next_index"][row] == 77) == (flags == 0)
    assert made.assigned[made.results["next_index"][row]]


def test_raw_values_are_added_in_double_precision_in_the_order_of_ranks() -> None:
    made = merger(tree=Tree(Membership(0, 0, 3, [[0, 1, 2]]), 0))
    flagged = [gradient(0, r, made.tree, 1, wire.OVERFLOW if r == 1 else 0) for r in range(3)]
    (row,), *_ = take(made, np.concatenate(flagged))
    assert made.results["flags"][row] & (wire.OVERFLOW | wire.RAW) == wire.OVERFLOW
    own = np.array([1e30, 3.5, -1e30], np.float32)
    for rank in (2, 0, 1):
        packet = gradient(0, rank, made.tree, 0, wire.RESEND)
        packet["kind"], packet["vector"] = wire.KIND_RAW, np.full(K, own[rank]).view(np.int32)
        finished, _, *_ = take(made, packet)
    assert list(finished) == [row] and made.results["flags"][row] & wire.RAW
    total = made.results["vector"][row].astype(np.int32).view(np.float32)
    assert list(total) == [np.float32(own.astype(np.float64).sum())] * K


def test_jobs_have_what_differs_and_hosts_of_their_own() -> None:
    jobs = '[{"scheme": "atp", "workers": [2, 0], "servers": 2}, {"scheme": "ring", "start": 1.5, "steps": 3}]'
    settings = make_settings(TrialSettings, {"jobs": jobs, "workers": "1", "steps": "9"})
    settings.check()
    plan = settings.plan()
    first, second = settings.plans(plan)
    assert [h.name for h in first.everyone] == ["h0", "h1", "s0", "s1"]
    assert [h.name for h in second.everyone] == ["h2", "h3"]
    assert first.members(2) == [[0, 1], []] and second.members(2) == [[0], [1]]
    assert [job.steps for job in settings.each()] == [9, 3] and settings.starts() == [0.0, 1.5]
    assert settings.running().program.name == "atp.p4"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"jobs": "["}, "not JSON"),
        ({"jobs": '[{"color": 1}]'}, "jobs.0.color"),
        ({"jobs": '[{}, {"scheme": "magic"}]'}, "scheme magic is unknown"),
        ({"jobs": '[{"scheme": "esa"}, {"scheme": "switchml"}]'}, "esa and switchml cannot be on one network"),
        ({"jobs": '[{"workers": [0, 0]}, {}]'}, "job 0 has no workers"),
        ({"jobs": '[{"workers": [1, 1, 1]}]'}, "one for each of the 2 racks"),
        ({"jobs": "[" + ", ".join(["{}"] * 17) + "]", "workers": "1"}, "the switches hold 16"),
        ({"jobs": '[{"slots": 1500}, {"slots": 1500}]'}, "all jobs together"),
        ({"scheme": "atp", "aggregators": "5000"}, "aggregators is 5000"),
        ({"jobs": '[{"steps": 0}]'}, "steps is 0"),
        ({"jobs": '[{"scheme": "atp", "servers": 0}]'}, "servers is 0"),
        ({"jobs": '[{"scaling": -1}]'}, "scaling is -1"),
        ({"jobs": '[{"workers": [-1]}, {}]'}, "greater than or equal to 0"),
        ({"scheme": "atp", "workers": "32"}, "do not fit into 32 bits"),
        ({"jobs": '[{"workers": 1}, {"workers": 1}]', "faults": "slow h0 2 at 1"}, "slow is a fault of one job alone"),
        ({"jobs": '[{"workers": 1}, {"workers": 1}]', "elastic": "yes"}, "elastic is of one job alone"),
        ({"background": "1", "racks": "1"}, "set racks to 2"),
    ],
)
def test_impossible_jobs_are_one_sentence(values: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        settings = make_settings(TrialSettings, values)
        settings.check()
        settings.check_emulated()


def test_metrics_of_jobs_together() -> None:
    one = {"elements": 10, "ate_per_second": 5.0, "duration": 3.0, "padding_min": 0.1, "tat_median": 1.0, "model_digest": "a"}
    both = together([one, {**one, "duration": 4.0, "tat_median": 2.0, "padding_min": -0.1, "model_digest": "b"}])
    assert both["elements"] == 20 and both["ate_per_second"] == 10.0 and both["duration"] == 4.0
    assert both["tat_median"] == 1.5 and both["padding_min"] == -0.1 and both["model_digest"] == "a+b"
    assert together([one]) == one
