"""MLfabric's planner: closed forms, and what holds for every plan by a model of its own."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inalab.hosts.mlfabric.planner import Network, Plan, Request, Standing, Transfer, plan

SERVER = 1000


def one_rack(source: int, destination: int) -> tuple[tuple[int, str], ...]:
    """Through one switch."""
    return (source, "up"), (destination, "down")


def rack_of(host: int) -> int:
    """Workers in racks of four; the server is in the first."""
    return 0 if host == SERVER else host // 4


def racks_of_four(source: int, destination: int) -> tuple[tuple[object, str], ...]:
    """Through a root switch between racks."""
    racks = [rack_of(host) for host in (source, destination)]
    between = ((f"rack{racks[0]}", "up"), (f"rack{racks[1]}", "down")) if racks[0] != racks[1] else ()
    return (source, "up"), *between, (destination, "down")


def request(worker: int, version: int = 0, size: float = 1.0, ready: float = 0.0) -> Request:
    return Request(worker, 0, version, size, 1.0, ready)


def equal(n: int, version: int = 0) -> list[Request]:
    return [request(worker, version) for worker in range(n)]


def network(n: int, rate: float = 1.0, path: object = one_rack, **free: float) -> Network:
    hosts = [*range(n), SERVER]
    rack = rack_of if path is racks_of_four else lambda host: 0
    return Network(path, {(host, way): rate for host in hosts for way in ("up", "down")}, free, rack)  # type: ignore[arg-type]


def applied(found: Plan) -> list[float]:
    """When each update is at the server."""
    return [slot.transfer.end for slot in found.slots for _ in slot.members]


# --- closed forms


@pytest.mark.parametrize("n", [1, 2, 8, 31])
def test_the_mean_completion_of_equal_updates_is_half_of_fair_sharing(n: int) -> None:
    found = plan(equal(n), SERVER, network(n), 0, aggregate=False)
    assert [slot.transfer.end for slot in found.slots] == [slot + 1 for slot in range(n)]
    assert sum(applied(found)) / n == (n + 1) / 2  # S / B is 1, and fair sharing has all at n


@pytest.mark.parametrize(("n", "slots"), [(1, 1), (3, 2), (8, 4), (10, 4), (16, 6), (32, 8), (36, 8), (37, 9), (500, 32)])
def test_k_slots_carry_k_times_k_plus_1_over_2_updates(n: int, slots: int) -> None:
    found = plan(equal(n), SERVER, network(n), 0)
    assert len(found.slots) == slots
    assert slots * (slots - 1) / 2 < n <= slots * (slots + 1) / 2
    assert max(applied(found)) == slots


def test_the_shortest_goes_first_and_of_equal_ones_the_oldest() -> None:
    waiting = [request(0, 5, 3.0), request(1, 5, 1.0), request(2, 4, 1.0), request(3, 5, 0.5, ready=0.2)]
    found = plan(waiting, SERVER, network(4), 5, aggregate=False)
    assert [slot.transfer.request.worker for slot in found.slots] == [3, 2, 1, 0]
    assert [slot.transfer.start for slot in found.slots] == pytest.approx([0.2, 0.7, 1.7, 2.7])


def test_what_can_begin_only_later_does_not_hold_up_the_others() -> None:
    found = plan([request(0, size=0.1, ready=5.0), request(1)], SERVER, network(2), 0, aggregate=False)
    assert [(slot.transfer.request.worker, slot.transfer.start) for slot in found.slots] == [(1, 0.0), (0, 5.0)]


@pytest.mark.parametrize(("later", "slots"), [(0.05, 2), (0.2, 3)])
def test_a_transfer_waits_a_little_for_what_it_is_to_carry_too(later: float, slots: int) -> None:
    waiting = [request(0), request(1), request(2, ready=later)]
    found = plan(waiting, SERVER, network(3), 0)
    assert len(found.slots) == slots
    assert slots == 3 or found.slots[1].transfer.start == pytest.approx(1 + later)


@pytest.mark.parametrize(("members", "joins"), [(1, True), (12, False)])
def test_a_slot_is_late_for_another_update_only_if_few_wait_for_it(members: int, joins: bool) -> None:
    """By 0.08 seconds, for each of its updates; the other one is there 0.92 seconds sooner."""
    net = replace(network(10), free={(SERVER, "down"): 2.0})
    found = plan([request(0, ready=0.08)], SERVER, net, 0, standing=[Standing(request(8), 0, members, 1.0)])
    assert bool(found.joining) is joins and bool(found.slots) is not joins
    assert all(slot.version == members for slot in found.slots)


def test_a_slot_is_late_by_a_tenth_at_most_however_many_join_it() -> None:
    """The second would come 0.11 seconds late; where it does not join it is dropped."""
    net = replace(network(10), free={(SERVER, "down"): 2.0})
    waiting = [request(0, 5, 0.05, ready=1.0), request(1, 5, 0.06)]
    found = plan(waiting, SERVER, net, 5, bound=0, standing=[Standing(request(8, 5), 5, 1, 1.0)])
    assert [t.request.worker for _, t in found.joining] == [0] and found.dropped == (waiting[1],)


def test_only_updates_within_the_bound_are_sent() -> None:
    found = plan(equal(8), SERVER, network(8), 0, bound=3, aggregate=False)
    assert [slot.version for slot in found.slots] == [0, 1, 2, 3]
    assert [r.worker for r in found.dropped] == [4, 5, 6, 7]


def test_aggregation_lets_more_updates_keep_the_bound() -> None:
    """Of four slots at versions 0 to 3 the last can absorb three more, and then the second the third."""
    found = plan(equal(8), SERVER, network(8), 0, bound=3)
    assert [len(slot.members) for slot in found.slots] == [1, 2, 4] and [r.worker for r in found.dropped] == [7]


def test_what_is_under_way_counts_for_links_and_versions() -> None:
    busy = Network(one_rack, {(SERVER, "down"): 1.0, (0, "up"): 1.0}, {(SERVER, "down"): 2.0})
    found = plan([request(0, 7)], SERVER, busy, 9, bound=2)
    assert found.slots[0].transfer == Transfer(request(0, 7), SERVER, 2.0, 3.0) and found.slots[0].version == 9
    assert plan([request(0, 7)], SERVER, busy, 10, bound=2).dropped == (request(0, 7),)


def test_workers_absorb_what_comes_from_their_own_rack() -> None:
    found = plan([request(worker, int(worker < 4)) for worker in range(12)], SERVER, network(12, path=racks_of_four), 1)
    assert any(slot.absorbed for slot in found.slots)
    for slot in found.slots:
        assert {t.request.worker // 4 for t in slot.absorbed} <= {slot.transfer.request.worker // 4}


def test_slots_that_stand_absorb_more_within_the_bound() -> None:
    """Two stand, at versions 5 and 7; the second's oldest update may be one later, and what joins the first makes it so."""
    standing = [Standing(request(8, 4), 4, 2, 1.0), Standing(request(9, 4), 4, 1, 2.0)]
    net = replace(network(10), free={(SERVER, "down"): 3.0})
    found = plan([request(0, 5), request(1, 5)], SERVER, net, 5, bound=4, standing=standing)
    assert [(number, t.request.worker, t.start, t.end) for number, t in found.joining] == [(0, 1, 0.0, 1.0), (1, 0, 0.0, 1.0)]
    assert not found.slots and not found.dropped
    strict = plan([request(0, 5), request(1, 5)], SERVER, net, 5, bound=3, standing=standing)
    assert not strict.joining and [len(slot.members) for slot in strict.slots] == [2] and not strict.dropped
    net = replace(net, free={(SERVER, "down"): 2.0})
    found = plan([request(0, 5), request(1, 5, ready=1.9)], SERVER, net, 5, standing=standing[:1])
    assert [number for number, _ in found.joining] == [0] and [slot.version for slot in found.slots] == [5 + 2 + 1]


def two_that_stand(*waiting: Request) -> Plan:
    """Of one update each, at versions 5 and 6, and at times 1 and 2; the bound is 2."""
    standing = [Standing(request(8, 5), 5, 1, 1.0), Standing(request(9, 6), 6, 1, 2.0)]
    return plan(waiting, SERVER, replace(network(10), free={(SERVER, "down"): 3.0}), 5, bound=2, standing=standing)


def test_an_update_that_joins_is_not_delayed_beyond_the_bound_either() -> None:
    """The first has a delay of 2 in the second slot, so nothing joins the slot before that."""
    waiting = request(0, 4, ready=0.5), request(1, 5)
    found = two_that_stand(*waiting)
    assert [(number, t.request) for number, t in found.joining] == [(1, waiting[0])] and found.dropped == waiting[1:]


def test_a_slot_that_an_earlier_one_delays_waits_a_tenth_more() -> None:
    found = two_that_stand(request(0, 4, ready=0.08), request(1, 5, ready=1.15))
    assert [(number, t.end) for number, t in found.joining] == [(0, pytest.approx(1.08)), (1, pytest.approx(2.15))]


def test_a_worker_has_one_update_that_waits() -> None:
    with pytest.raises(ValueError, match="a worker has two updates that wait"):
        plan([request(0), request(0)], SERVER, network(1), 0)


# --- aggregators at random


def aggregators(seed: int, n: int = 8, path: object = one_rack) -> dict[int, int]:
    """Who adds whose update, where all have one of the same size."""
    found = plan(equal(n), SERVER, network(n, path=path), 0, draw=random.Random(seed))
    return {t.request.worker: t.destination for slot in found.slots for t in slot.absorbed}


def test_a_seed_is_a_plan_and_others_have_others() -> None:
    assert all(aggregators(seed) == aggregators(seed) for seed in range(20))
    assert len({tuple(aggregators(seed).items()) for seed in range(20)}) > 10


def test_any_worker_that_waits_for_its_turn_is_an_aggregator_and_the_one_that_sends_is_not() -> None:
    found = [aggregators(seed) for seed in range(200)]
    assert {aggregator for those in found for aggregator in those.values()} == set(range(1, 7))  # 0 sends; 7 has nobody behind it


def test_the_aggregator_that_is_drawn_is_in_the_same_rack() -> None:
    for seed in range(50):
        assert all(worker // 4 == aggregator // 4 for worker, aggregator in aggregators(seed, 12, racks_of_four).items())


def test_an_aggregator_that_is_drawn_waits_for_an_update_that_would_be_dropped() -> None:
    """Half a transfer, where a planned one would wait for a tenth at most."""
    net = replace(network(10), free={(SERVER, "down"): 2.0})
    waiting, standing = request(0, 5, 0.5, ready=1.0), Standing(request(8, 5), 5, 1, 1.0)
    found = plan([waiting], SERVER, net, 5, bound=0, standing=[standing], draw=random.Random(1))
    assert [(number, t.end) for number, t in found.joining] == [(0, 1.5)] and not found.dropped
    assert plan([waiting], SERVER, net, 5, bound=0, standing=[standing]).dropped == (waiting,)


def test_an_aggregator_that_is_drawn_does_not_wait_for_what_waits_for_it() -> None:
    """Another transfer has the update's link reserved behind the aggregator's own."""
    net = replace(network(10), free={(SERVER, "down"): 2.0, (0, "up"): 2.5})
    found = plan([request(0)], SERVER, net, 0, standing=[Standing(request(8), 0, 1, 1.0)], draw=random.Random(1))
    assert not found.joining and [slot.transfer.start for slot in found.slots] == [2.5]


# --- every plan

sizes = st.sampled_from([0.25, 0.5, 1.0, 3.0])
draws = st.none() | st.integers(0, 99).map(random.Random)
asked = st.tuples(st.integers(0, 12), sizes, st.floats(0, 4), st.sampled_from([0.5, 1.0, 2.0]))
bounds = st.none() | st.integers(0, 15)


@settings(max_examples=400, deadline=None)
@given(st.lists(asked, max_size=14), bounds, st.booleans(), st.booleans(), st.floats(0, 3), draws)
def test_every_plan_keeps_links_apart_and_delays_within_the_bound(
    given_: list[tuple[int, float, float, float]], bound: int | None, aggregate: bool, racks: bool, busy: float,
    draw: random.Random | None,
) -> None:  # fmt: skip
    waiting = [request(worker, version, size, ready) for worker, (version, size, ready, _) in enumerate(given_)]
    rates = {(worker, way): rate for worker, (*_, rate) in enumerate(given_) for way in ("up", "down")} | {(SERVER, "down"): 1.0}
    if racks:
        rates |= {(f"rack{number}", way): 1.5 for number in range(4) for way in ("up", "down")}  # type: ignore[misc]
    path, rack = (racks_of_four, rack_of) if racks else (one_rack, lambda host: 0)
    net = Network(path, rates, {(SERVER, "down"): busy}, rack)  # type: ignore[arg-type]
    found = plan(waiting, SERVER, net, 12, bound, aggregate, draw=draw)

    # every update is somewhere once
    everywhere = [r for slot in found.slots for r in slot.members] + list(found.dropped)
    assert sorted(everywhere, key=lambda r: r.worker) == waiting

    # no link carries two transfers at a time, and none carries more than its rate
    carried = defaultdict(list)
    for slot in found.slots:
        for transfer in (slot.transfer, *slot.absorbed):
            path = net.path(transfer.request.worker, transfer.destination)
            assert transfer.start >= transfer.request.ready
            assert transfer.end - transfer.start == pytest.approx(max(transfer.request.size / rates[link] for link in path))
            for link in path:
                carried[link].append((transfer.start, transfer.end))
    for link, times in carried.items():
        times.sort()
        assert times[0][0] >= net.free.get(link, 0.0)
        assert all(after >= end - 1e-9 for (_, end), (after, _) in pairwise(times))

    # what is absorbed is there before it is sent on, and nobody who absorbs is absorbed
    for slot in found.slots:
        assert slot.transfer.destination == SERVER
        for transfer in slot.absorbed:
            assert transfer.destination == slot.transfer.request.worker and transfer.end <= slot.transfer.start + 1e-9
    assert aggregate or all(not slot.absorbed for slot in found.slots)

    # the server applies slot after slot: versions, delays
    version = 12
    for before, after in pairwise(found.slots):
        assert before.transfer.end <= after.transfer.end
    for slot in found.slots:
        assert slot.version == version
        for r in slot.members:
            assert bound is None or version - r.version <= bound
        version += len(slot.members)

    # what is dropped would have been too late behind all others
    for r in found.dropped:
        assert bound is not None and version - r.version > bound


@settings(max_examples=200, deadline=None)
@given(st.lists(asked, min_size=1, max_size=14), draws)
def test_aggregation_never_makes_the_mean_completion_worse(
    given_: list[tuple[int, float, float, float]], draw: random.Random | None
) -> None:
    waiting = [request(worker, version, size) for worker, (version, size, *_) in enumerate(given_)]
    rates = {(worker, way): rate for worker, (*_, rate) in enumerate(given_) for way in ("up", "down")} | {(SERVER, "down"): 1.0}
    net = Network(one_rack, rates)
    alone, grouped = (plan(waiting, SERVER, net, 12, None, aggregate, draw=draw) for aggregate in (False, True))
    assert sum(applied(grouped)) <= sum(applied(alone)) + 1e-9
    assert len(grouped.slots) <= len(alone.slots)
