"""MLfabric's scheduler: random requests, transfers of random length and deaths, against a model of the network and the server."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inalab.hosts.mlfabric.distribution import Ahead, Distribution
from inalab.hosts.mlfabric.fabric import Fabric
from inalab.hosts.mlfabric.reservations import LATE
from inalab.hosts.mlfabric.schedule import Schedule
from inalab.hosts.mlfabric.transfers import Fetch, Job, Pass, Push, Skip, What
from tests.mlfabric_world import RATE, World
from tests.properties import examples


@examples(400)
@given(st.integers(0, 10**9))
def test_every_update_is_applied_or_dropped_once_within_the_bound_whoever_dies(seed: int) -> None:
    """All is drawn from the seed: hypothesis would draw mostly few workers, one step and no deaths."""
    rng = random.Random(seed)
    n, steps, bound = rng.randint(1, 9), rng.randint(1, 6), rng.choice([None, rng.randint(0, 12)])
    order, aggregate, distribute = (rng.random() < 0.7 for _ in range(3))
    options: dict[str, Any] = {"bound": bound, "order": order, "aggregate": aggregate, "distribute": distribute}
    options |= {"partings": rng.randint(0, 3), "hangs": rng.choice([0, rng.randint(0, n - 1)]), "stalls": rng.choice([0.0, 0.1])}
    options["draw"] = rng.choice([None, random.Random(seed)])
    world = World(n, steps, seed, rng.randint(0, min(3, n - 1)), **options).run()
    for worker in set(range(n)) - world.dead - world.hung:
        assert [world.fate.get((worker, number)) for number in range(steps)].count(None) == 0
        assert world.done[worker] == steps
    assert all(bound is None or delay <= bound for delay in world.delays) and all(delay >= 0 for delay in world.delays)
    if bound is None:
        assert "dropped" not in world.fate.values()
    if not world.dead | world.hung:
        assert world.version == sum(fate == "applied" for fate in world.fate.values())
        assert not world.schedule.reserved.jobs and not world.schedule.waiting and not world.schedule.members
    if order and not world.apart and not world.dead:
        for times in world.busy.values():
            assert all(after >= min(end, begin + LATE + 2.0) - 1e-9 for (begin, end), (after, _) in pairwise(sorted(times)))
    if not (aggregate or world.dead or world.hung or options["stalls"]):
        assert world.into_server == world.version  # nothing of what was dropped


def test_equal_updates_that_come_at_once_take_few_slots() -> None:
    schedule = Schedule(Fabric([0] * 9, [RATE] * 9, [0.0]), 8, None)
    actions = [action for worker in range(8) for action in schedule.request(worker, 0, 0, 1.0, 1.0, 0.0)]
    assert [action.worker for action in actions if action.destination == 8] == [0]  # the first goes at once
    assert [len(members) for members in schedule.members.values()] == [1, 2, 3, 2]


def test_an_aggregator_sends_once_all_is_in_that_it_absorbs() -> None:
    """Its links are free from 1 s on; the other worker's update comes half a second later."""
    schedule = Schedule(Fabric([0] * 4, [RATE] * 4, [0.0]), 3, None)
    two_to_the_server(schedule, 0, 0.0)
    assert schedule.applied(0, 1.0) == []
    (push,) = schedule.absorbed(1, 0, 2, 1.5)
    assert isinstance(push, Push) and push.members == (1, 2) and push.turn == 1.0


@pytest.mark.parametrize(("n", "slots"), [(3, 2), (8, 4), (16, 6), (32, 8)])
def test_k_slots_carry_almost_k_times_k_plus_1_over_2_updates_that_come_one_by_one(n: int, slots: int) -> None:
    schedule = Schedule(Fabric([0] * (n + 1), [RATE] * (n + 1), [0.0]), n, None)
    for worker in range(n):
        schedule.request(worker, 0, 0, 1.0, 1.0, 0.001 * worker / n)
    assert slots <= len(schedule.members) <= slots + 1


def test_what_another_worker_has_already_is_not_planned_anew() -> None:
    """Worker 2 has the update of worker 1 when that of worker 3 comes. And who is granted a transfer meets what is before it."""
    schedule = Schedule(Fabric([0] * 5, [RATE] * 5, [0.0]), 4, None)
    for worker in range(3):
        schedule.request(worker, 0, 0, 1.0, 1.0, 0.0)
    assert schedule.absorbed(1, 0, 2, 1.0) == schedule.request(3, 0, 0, 1.0, 1.0, 1.0) == []
    assert [sorted(members) for members in schedule.members.values()] == [[0], [1, 2], [3]]
    assert schedule.applied(0, 1.5) == [Push(2, 4, 1, (1, 2), RATE)]
    assert schedule.applied(1, 2.5) == [Push(3, 4, 2, (3,), RATE)]
    assert schedule.met == {0: 0, 1: 1, 2: 1, 3: 3}


def test_what_was_not_to_be_is_refused() -> None:
    schedule = Schedule(Fabric([0] * 3, [RATE] * 3, [0.0]), 2, None)
    schedule.request(0, 0, 0, 1.0, 1.0, 0.0)
    for what in (
        lambda: schedule.absorbed(0, 0, 1, 1.0),
        lambda: schedule.applied(7, 1.0),
        lambda: schedule.fetched(0, 1, 0, 1.0),
        lambda: schedule.skipped(0, 1.0),
    ):
        with pytest.raises(ValueError):
            what()
    schedule.fetch(0, 1, 0, 1.0, 0.0)
    with pytest.raises(ValueError, match="worker 0 fetches the model"):
        schedule.fetch(0, 2, 0, 1.0, 0.0)
    with pytest.raises(ValueError, match="not under way"):
        schedule.fetched(0, 2, 0, 1.0)


def waiting_for_the_model(n: int, **options: Any) -> tuple[Schedule, list[Any]]:
    """All workers of a rack want version 1, at once, and the first fetches it."""
    schedule = Schedule(Fabric([0] * (n + 1), [RATE] * (n + 1), [0.0]), n, None, **options)
    return schedule, [action for worker in range(n) for action in schedule.fetch(worker, 1, 1, 1.0, 0.0)]


@pytest.mark.parametrize(("distribute", "each"), [(True, [1, 2, 4, 8]), (False, [1] * 15)])
def test_workers_that_have_the_model_pass_it_on(distribute: bool, each: list[int]) -> None:
    schedule, actions = waiting_for_the_model(15, distribute=distribute)
    now, turns = 0.0, []
    while actions:
        turns.append(len(actions))
        now += 1.0
        have = [(a.worker, a.number) if isinstance(a, Fetch) else (a.destination, a.number) for a in actions]
        actions = [action for worker, number in have for action in schedule.fetched(worker, number, 1, now)]
    assert turns == each


def test_a_model_that_is_too_old_is_not_passed_on() -> None:
    schedule, actions = waiting_for_the_model(3)
    assert actions == [Fetch(0, 1, RATE)]
    assert schedule.fetched(0, 1, 0, 1.0) == [Fetch(1, 1, RATE)]


@pytest.mark.parametrize(("version", "source"), [(3, 1), (4, 1), (5, None)])
def test_the_newest_model_is_passed_on_within_the_bound(version: int, source: int | None) -> None:
    """Workers 0 and 1 can pass on versions 1 and 2, and could so equally soon."""
    fabric = Fabric([0] * 4, [RATE] * 4, [0.0])
    job = Job(What.MODEL, 3, 2, fabric.path(3, 2), 1.0, 1.0, least=1)
    ahead = Ahead({job: 9.0}, {}, [0, 1])
    assert Distribution(fabric, 2, {0: 1, 1: 2}).source(job, version, set(), ahead, 0.0) == source


@pytest.mark.parametrize("gone", [False, True])
def test_a_dead_worker_passes_on_no_model(gone: bool) -> None:
    schedule = Schedule(Fabric([0] * 4, [RATE] * 4, [0.0]), 3, None)
    schedule.fetch(0, 1, 1, 1.0, 0.0)
    assert schedule.fetched(0, 1, 1, 1.0) == (schedule.gone(0, 1.5) if gone else [])
    assert schedule.fetch(1, 1, 1, 1.0, 2.0) == [Fetch(1, 1, RATE)]
    assert schedule.fetch(2, 1, 1, 1.0, 2.0) == [Pass(0, 2, 1, RATE)] * (not gone)


def test_workers_that_part_after_a_death_are_passed_nothing_either() -> None:
    schedule, _ = waiting_for_the_model(4)
    assert schedule.gone(3, 0.5) == schedule.part(0, 2, 0.5) == []
    assert schedule.fetched(0, 1, 1, 1.0) == [Fetch(1, 1, RATE)]


@pytest.mark.parametrize("dies", [False, True])
def test_no_update_is_added_on_the_way_while_two_workers_are_apart(dies: bool) -> None:
    schedule = Schedule(Fabric([0] * 5, [RATE] * 5, [0.0]), 4, None)
    schedule.part(0, 3, 0.0)
    if dies:
        schedule.gone(3, 0.0)
    for worker in range(3):
        schedule.request(worker, 0, 0, 1.0, 1.0, 0.0)
    assert [len(members) for members in schedule.members.values()] == ([1, 2] if dies else [1, 1, 1])


def test_a_worker_passes_on_the_model_while_it_receives() -> None:
    schedule = Schedule(Fabric([0] * 5, [RATE] * 5, [0.0]), 4, None)
    for worker in (0, 1):  # the first gets its second model when another wants its first one
        schedule.fetch(worker, 1, 1, 1.0, worker)
        schedule.fetched(worker, 1, 1, worker + 1)
    schedule.distribution.models.pop(1)
    assert schedule.fetch(0, 2, 2, 1.0, 3.0) == [Fetch(0, 2, RATE)]
    assert schedule.fetch(2, 1, 1, 1.0, 3.0) == [Pass(0, 2, 1, RATE)]


def test_a_slow_link_passes_on_nothing_that_the_server_can_send_sooner() -> None:
    schedule = Schedule(Fabric([0] * 4, [0.25, 1.0, 1.0, 1.0], [0.0]), 3, None)
    actions = [action for worker in range(3) for action in schedule.fetch(worker, 1, 1, 1.0, 0.0)]
    assert actions == [Fetch(0, 1, 0.25)]
    assert schedule.fetched(0, 1, 1, 4.0) == [Fetch(1, 1, 1.0)]  # the other waits for the server, too


@pytest.mark.parametrize(("size", "actions"), [(1.0, [Pass(0, 3, 1, RATE)]), (2.0, [])])
def test_no_update_waits_for_a_model_that_is_passed_on(size: float, actions: list[Any]) -> None:
    schedule = Schedule(Fabric([0] * 5, [RATE] * 5, [0.0]), 4, None)
    schedule.fetch(0, 1, 0, 1.0, 0.0)
    schedule.fetched(0, 1, 0, 1.0)
    assert [action.worker for action in schedule.request(1, 0, 0, 1.5, 1.0, 1.0)] == [1]
    assert schedule.request(0, 0, 0, 1.5, 1.0, 1.0) == []  # goes to the server behind the other, from 2.5 on
    assert schedule.fetch(2, 1, 0, 10.0, 1.0) == [Fetch(2, 1, RATE)]
    assert schedule.fetch(3, 1, 0, size, 1.0) == actions


def test_the_server_sends_what_a_dead_worker_was_to_pass_on() -> None:
    schedule, _ = waiting_for_the_model(3)
    assert schedule.fetched(0, 1, 1, 1.0) == [Fetch(1, 1, RATE), Pass(0, 2, 1, RATE)]
    assert schedule.busy() == [0, 1]
    assert schedule.gone(0, 1.5) == []
    assert schedule.fetched(1, 1, 1, 2.0) == [Fetch(2, 1, RATE)]
    assert schedule.fetched(2, 1, 1, 3.0) == []
    assert schedule.reserved.jobs == []


def test_a_dead_workers_last_bytes_may_be_the_model() -> None:
    schedule, _ = waiting_for_the_model(3)
    schedule.fetched(0, 1, 1, 1.0)
    schedule.gone(0, 1.5)
    assert schedule.fetched(2, 1, 1, 1.6) == []  # before the server could send it once more
    assert [job.destination for job in schedule.reserved.jobs] == [1]


def late(schedule: Schedule, now: float) -> list[Any]:
    """What follows from all that is late."""
    return [action for job in schedule.reserved.should_have_ended(now) for action in schedule.wait_no_longer(job, now)]


def test_what_is_behind_a_late_update_is_planned_again() -> None:
    schedule = Schedule(Fabric([0] * 4, [RATE] * 4, [0.0]), 3, None)
    assert schedule.request(0, 0, 0, 1.0, 1.0, 0.0) == [Push(0, 3, 0, (0,), RATE)]
    assert schedule.request(1, 0, 0, 1.0, 1.0, 0.5) == []
    assert late(schedule, 2.0 + LATE) == [] and late(schedule, 2.1 + LATE) == [Skip(0), Push(1, 3, 1, (1,), RATE)]
    assert schedule.skipped(0, 4.2) == schedule.request(2, 0, 0, 1.0, 1.0, 4.5) == []  # worker 0 is not to send again yet
    assert schedule.applied(1, 5.0) == [Push(2, 3, 2, (2,), RATE)] and schedule.fabric.rates[0, "up"] == RATE
    assert schedule.came_late(0, 8.0) == [] and schedule.fabric.rates[0, "up"] == RATE
    assert schedule.applied(2, 9.0) == [Push(0, 3, 3, (0,), RATE)]
    assert schedule.applied(3, 10.0) == [] and schedule.version == 3


@pytest.mark.parametrize(("rate", "order", "takes"), [(0.0, True, 2.5), (RATE, False, 7.0), (RATE, True, 7.0)])
def test_an_update_on_a_link_that_is_always_slower_than_planned_is_late_once(rate: float, order: bool, takes: float) -> None:
    """If it were late each time, it would be skipped and sent again for ever."""
    schedule = Schedule(Fabric([0, 0], [rate] * 2, [0.0]), 1, None, order=order)
    now, applied = 0.0, 0
    schedule.request(0, 0, 0, 1.0, 1.0, now)
    for ticket in range(9):
        now += takes
        if late(schedule, now):
            schedule.skipped(ticket, now)
            schedule.came_late(ticket, now)
            assert ticket == 0
        else:
            schedule.applied(ticket, now)
            applied += 1
            schedule.request(0, applied, schedule.version, 1.0, 1.0, now)
    assert applied == 8


def test_a_worker_that_hung_once_has_its_turn_soon() -> None:
    """Its link is not taken to be as slow as the hang was long: others, who are always sooner, would keep the server's link busy."""
    schedule, now = Schedule(Fabric([0] * 4, [RATE] * 4, [0.0]), 3, None, aggregate=False), 8.0
    schedule.request(0, 0, 0, 1.0, 1.0, 0.0)
    assert late(schedule, now)
    schedule.skipped(0, now)
    schedule.request(1, 0, 0, 1.0, 1.0, now)
    schedule.request(2, 0, 0, 1.0, 1.0, now)
    schedule.came_late(0, now)
    senders = []
    for number in range(1, 8):
        now += 1.0
        (job,) = [job for job in schedule.reserved.jobs if job.begun is not None]
        senders.append(job.source)
        schedule.applied(job.ticket, now)
        schedule.request(job.source, number, schedule.version, 1.0, 1.0, now)
    assert 0 in senders[:4]


def test_a_late_update_that_the_server_has_nevertheless_is_not_sent_again() -> None:
    schedule = Schedule(Fabric([0] * 3, [RATE] * 3, [0.0]), 2, None)
    schedule.request(0, 0, 0, 1.0, 1.0, 0.0)
    assert late(schedule, 5.0) == [Skip(0)]
    assert schedule.applied(0, 5.0) == [] and schedule.version == 1
    assert schedule.request(0, 1, 1, 1.0, 1.0, 6.0) == [Push(0, 2, 1, (0,), RATE)]


def two_to_the_server(schedule: Schedule, number: int, now: float) -> None:
    """All three workers have an update; the last one is to send the middle one's, too."""
    version = schedule.version
    for worker in range(3):
        schedule.request(worker, number, version, 1.0, 1.0, now)
    assert [(job.source, job.destination) for job in schedule.reserved.jobs if job.begun == now] == [(0, 3), (1, 2)]


def test_an_update_that_is_late_at_another_worker_goes_elsewhere_and_counts_once() -> None:
    schedule = Schedule(Fabric([0] * 4, [RATE] * 4, [0.0]), 3, None)
    two_to_the_server(schedule, 0, 0.0)
    schedule.applied(0, 1.0)
    assert late(schedule, 5.0) == [Push(1, 3, 1, (1,), RATE)]
    assert schedule.applied(1, 6.0) == [Push(2, 3, 2, (2,), RATE)]
    assert schedule.absorbed(1, 0, 2, 6.5) == []  # it has come now
    assert schedule.applied(2, 7.0) == [] and schedule.version == 3
    with pytest.raises(ValueError, match="not under way"):
        schedule.absorbed(1, 0, 2, 7.5)


@pytest.mark.parametrize("heard", [False, True])
def test_a_worker_from_which_nothing_is_heard_adds_no_others_update(heard: bool) -> None:
    """Not its own fault, if it is heard from after that."""
    schedule = Schedule(Fabric([0] * 5, [RATE] * 5, [0.0]), 4, None)
    for worker in range(3):
        schedule.request(worker, 0, 0, 1.0, 1.0, 0.0)
    assert schedule.applied(0, 0.5) == []
    assert late(schedule, 5.0) == [Push(1, 4, 1, (1,), RATE)]
    if heard:
        assert schedule.absorbed(1, 0, 2, 5.0) == []
    assert schedule.request(3, 0, 0, 1.0, 1.0, 5.0) == [Push(2, 3, 2, (2,), RATE)] * heard


def test_an_update_that_came_late_is_not_taken_for_the_next_one() -> None:
    """Worker 2 has the first one when it is to receive the second, and would send it on once more."""
    schedule = Schedule(Fabric([0] * 4, [RATE] * 4, [0.0]), 3, None)
    two_to_the_server(schedule, 0, 0.0)
    schedule.applied(0, 1.0)
    late(schedule, 5.0)
    schedule.applied(1, 6.0)
    schedule.applied(2, 7.0)
    two_to_the_server(schedule, 1, 8.0)
    assert schedule.absorbed(1, 0, 2, 8.5) == [] and schedule.applied(3, 9.0) == []
    assert schedule.absorbed(1, 1, 2, 9.0) == [Push(2, 3, 4, (1, 2), RATE)]


def test_the_server_sends_a_model_that_is_late_from_a_worker() -> None:
    schedule, _ = waiting_for_the_model(3)
    assert schedule.fetched(0, 1, 1, 1.0) == [Fetch(1, 1, RATE), Pass(0, 2, 1, RATE)]
    assert schedule.fetched(1, 1, 1, 2.0) == [] and late(schedule, 6.0) == [Fetch(2, 1, RATE)]
    assert schedule.fetch(1, 2, 1, 1.0, 6.5) == []  # worker 0 is not to pass it on again
    assert schedule.fetched(2, 1, 1, 7.0) == [Fetch(1, 2, RATE)] and schedule.fetched(1, 2, 1, 8.0) == []
    assert not schedule.reserved.jobs


def test_a_worker_that_does_not_take_the_model_holds_up_nobody() -> None:
    schedule, _ = waiting_for_the_model(3)
    assert late(schedule, 5.0) == [Fetch(1, 1, RATE)]
    assert schedule.busy() == [0, 1]  # who is waited for
    assert schedule.fetched(1, 1, 1, 6.0) == [Fetch(2, 1, RATE)]
    assert schedule.fetched(0, 1, 1, 6.5) == schedule.fetched(2, 1, 1, 7.0) == [] and not schedule.reserved.jobs
    assert schedule.fabric.rates == schedule.fabric.given


def test_a_slow_link_is_learnt_and_forgotten() -> None:
    fabric = Fabric([0, 0, 1], [8.0, 4.0, 8.0], [0.0, 6.0])
    assert fabric.path(0, 2) == ((0, "up"), ("rack 0", "up"), ("rack 1", "down"), (2, "down"))
    path = fabric.path(0, 1)
    fabric.learn(path, 8.0, 4.0)
    assert fabric.rates[1, "down"] == pytest.approx(0.7 * 4 + 0.3 * 2) and fabric.rates[0, "up"] == 8.0
    for _ in range(30):
        fabric.learn(path, 8.0, 2.0)
    assert fabric.rates[1, "down"] == pytest.approx(4.0, rel=1e-3)
    fabric.learn(path, 8.0, 0.1)
    assert fabric.rates[1, "down"] == 4.0
