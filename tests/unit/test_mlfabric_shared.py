"""Several jobs' schedules that share racks' uplinks: random transfers and computing times, against a model of the network."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inalab.hosts.mlfabric.fabric import Fabric, uplinks
from inalab.hosts.mlfabric.reservations import LATE, share_uplinks
from inalab.hosts.mlfabric.schedule import Schedule
from inalab.hosts.mlfabric.transfers import Push
from inalab.testbed.plan.settings import SettingsError, TrialSettings, make_settings
from tests.mlfabric_world import RATE, World
from tests.properties import examples


class InRacks(World):
    """A job whose workers are in two racks; all jobs' transfers on uplinks are noted together."""

    def __init__(
        self, n: int, steps: int, seed: int, rack: int, crossing: dict[Any, list[tuple[float, float]]], **own: Any
    ) -> None:
        super().__init__(n, steps, seed, **own)
        self.fabric = Fabric([worker % 2 for worker in range(n)] + [rack] * 2, [RATE] * (n + 2), [RATE] * 2)
        self.schedule, self.crossing = Schedule(self.fabric, n, **own), crossing

    def carry(self, source: int, destination: int, takes: float) -> None:
        super().carry(source, destination, takes)
        for link in uplinks(self.fabric.path(source, destination)):
            self.crossing[link].append((self.now, self.now + takes))


def run(jobs: list[InRacks], shared: bool = True) -> None:
    """All of them in the order of time, until nothing happens any more."""
    if shared:
        share_uplinks([job.schedule.reserved for job in jobs])
    while busy := [job for job in jobs if job.events]:
        first = min(busy, key=lambda job: job.events[0][0])
        first.step()
        for job in jobs:
            job.now = first.now
            job.do(job.schedule.go_on(job.now))


def overlap(times: list[tuple[float, float]]) -> bool:
    """Whether some begin before others end that are not late."""
    return any(after < min(end, begin + LATE + 2.0) - 1e-9 for (begin, end), (after, _) in pairwise(sorted(times)))


@examples(200)
@given(st.integers(0, 10**9))
def test_jobs_take_turns_on_uplinks_and_every_update_is_applied_or_dropped_once(seed: int) -> None:
    rng = random.Random(seed)
    crossing: dict[Any, list[tuple[float, float]]] = defaultdict(list)
    jobs = []
    for number in range(rng.randint(2, 3)):
        own: dict[str, Any] = {"bound": rng.choice([None, rng.randint(0, 6)]), "aggregate": rng.random() < 0.7}
        own |= {"distribute": rng.random() < 0.7, "draw": rng.choice([None, random.Random(seed)])}
        jobs.append(InRacks(rng.randint(1, 6), rng.randint(1, 4), seed + number, number % 2, crossing, **own))
    run(jobs)
    for job in jobs:
        assert all(job.done[worker] == job.steps for worker in range(job.n)) and len(job.fate) == job.n * job.steps
        assert job.options["bound"] is None or max(job.delays, default=0) <= job.options["bound"]
        assert not job.schedule.reserved.jobs and not job.schedule.waiting and not job.schedule.members
    assert not any(overlap(times) for times in crossing.values())


def test_with_a_scheduler_each_their_transfers_overlap_on_uplinks() -> None:
    crossing: dict[Any, list[tuple[float, float]]] = defaultdict(list)
    run([InRacks(4, 4, number, 0, crossing, bound=None) for number in range(3)], shared=False)
    assert any(overlap(times) for times in crossing.values())


def test_an_uplink_goes_to_the_transfer_that_was_planned_first() -> None:
    """Three jobs have a worker in the other rack; a job that is in its own rack waits for nobody."""
    one, two, three = (Schedule(Fabric([1, 0, 0], [RATE] * 3, [RATE] * 2), 1, None) for _ in range(3))
    inside = Schedule(Fabric([1, 1, 1], [RATE] * 3, [RATE] * 2), 1, None)
    share_uplinks([schedule.reserved for schedule in (one, two, three, inside)])
    (push,) = one.request(0, 0, 0, 1.0, 1.0, 0.0)
    assert isinstance(push, Push)
    assert three.request(0, 0, 0, 1.0, 1.0, 0.1) == two.request(0, 0, 0, 1.0, 1.0, 0.2) == []
    assert len(inside.request(0, 0, 0, 1.0, 1.0, 0.3)) == 1
    assert two.reserved.expected(0.3)[0].free["rack 1", "up"] == pytest.approx(3.0)
    one.applied(0, 1.0)
    assert two.go_on(1.0) == [] and len(three.go_on(1.0)) == 1


@pytest.mark.parametrize(
    ("jobs", "reason"),
    [
        ([{"mlfabric.shared": True}, {}], "set mlfabric.shared for each"),
        ([{"scheme": "async"}, {"mlfabric.shared": True}], "scheme mlfabric for the first job"),
        ([{"mlfabric.shared": True, "mlfabric.chain": True}] * 2, "have no replicas of their servers"),
    ],
)
def test_what_one_scheduler_cannot_do_is_refused(jobs: list[dict[str, Any]], reason: str) -> None:
    chosen = {"scheme": "mlfabric", "pipeline": "asynchronous", "racks": 2, "workers": 1, "jobs": jobs}
    with pytest.raises(SettingsError, match=reason):
        make_settings(TrialSettings, chosen).check()
