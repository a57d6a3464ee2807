"""What a rack's switch makes of queries, and of what the spine answers, in a round whose workers are all in: as the model does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from inalab.hosts.switchml import wire
from tests.packets import EPOCH, TestJob
from tests.properties import examples
from tests.reference import QUERY, STATUS
from tests.unit.test_switchml_interleavings import SLOTS, Group, ask, deliver_status, expect, model_of, switch

WORKERS = 3
FIRST, AGAIN, INSISTS = 0, 1, wire.MARK_INSISTS
QUERIES = st.lists(st.tuples(st.integers(0, WORKERS - 1), st.sampled_from([FIRST, AGAIN, INSISTS])), max_size=12)


@examples(50)
@given(QUERIES)
@example([(0, FIRST), (1, FIRST), (1, AGAIN), (0, AGAIN)])
@example([(0, FIRST), (1, INSISTS), (0, AGAIN), (1, AGAIN), (1, FIRST)])
@example([(2, AGAIN), (2, FIRST), (2, AGAIN)])
def test_one_workers_queries_go_up_and_whoever_insists(queries: list[tuple[int, int]]) -> None:
    job = TestJob(WORKERS, SLOTS, has_parent=True)
    group, model = Group(job, EPOCH, 0), model_of(job)
    with switch(job) as made:
        for turn in range(2):
            for worker in range(WORKERS):
                expect(job, made, model, group.update(worker, 0, turn))
            for worker, mark in queries:
                m = replace(group.update(worker, 0, turn), vector=(), part=None, again=mark == AGAIN, insists=mark == INSISTS)
                ask(job, made, model, replace(m, kind=QUERY))


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("has_us", [False, True])
def test_the_rack_sends_its_sum_again_if_the_spine_lacks_it_and_relays_all_else(has_us: bool, level: int) -> None:
    job = TestJob(WORKERS, SLOTS, has_parent=True)
    group, model = Group(job, EPOCH, 0), model_of(job)
    with switch(job) as made:
        for worker in range(WORKERS):
            expect(job, made, model, group.update(worker, 0, 0))
        status = replace(group.update(0, 0, 0), kind=STATUS, vector=())
        deliver_status(job, made, model, status, has_us, level)
