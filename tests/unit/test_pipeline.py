"""When layers compute and their sums begin: schedules by hand, and what holds for all."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from inalab.hosts.training.layers import layers_of, whole
from inalab.hosts.training.pipeline import BARRIER, CROSS_BARRIER, ready, scheduled
from inalab.hosts.training.workloads import PROFILES, WORKLOADS, find

ROOT = Path(__file__).parents[2]
TIMES = st.floats(0, 10)


def test_a_step_whose_layers_are_ready_computes_without_a_break() -> None:
    plan = scheduled(5.0, [1.0, 2.0, 5.0], [1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    assert plan.begins == [5.0, 6.0, 8.0]
    assert plan.forward == [6.0, 8.0, 11.0]
    assert plan.backward == [26.0, 22.0, 17.0]
    assert (plan.begun, plan.first_release, plan.ended, plan.busy) == (5.0, 17.0, 26.0, 21.0)


def test_a_layer_waits_for_its_own_sum_and_holds_up_those_behind_it() -> None:
    plan = scheduled(0.0, [0.0, 9.0, 2.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0])
    assert plan.begins == [0.0, 9.0, 10.0]
    assert plan.busy == 6.0
    assert plan.delayed(2.0).backward == [16.0, 15.0, 14.0]
    assert plan.delayed(2.0).busy == 8.0


@given(st.lists(st.tuples(TIMES, TIMES, TIMES), min_size=1, max_size=6), TIMES)
def test_one_layer_at_a_time_and_none_before_its_sum(layers: list[tuple[float, float, float]], free: float) -> None:
    due, forward, backward = (list(column) for column in zip(*layers, strict=True))
    plan = scheduled(free, due, forward, backward)
    assert all(begin >= max(free, when) for begin, when in zip(plan.begins, due, strict=True))
    assert all(begin >= end for begin, end in zip(plan.begins[1:], plan.forward[:-1], strict=True))
    assert all(first >= later for first, later in pairwise(plan.backward))
    assert plan.busy == pytest.approx(sum(forward) + sum(backward), abs=1e-6)
    barrier = scheduled(free, ready(BARRIER, due), forward, backward)
    assert plan.ended <= barrier.ended + 1e-9
    assert ready(CROSS_BARRIER, due) == due


# --- layers


@pytest.mark.parametrize("name", [*WORKLOADS, *PROFILES, "layers-3x10+5@0.5"])
def test_layers_are_all_of_a_model_front_first(name: str) -> None:
    workload = find(name)
    model = workload.model()
    layers = layers_of(workload, model)
    assert [p for layer in layers for p in layer.parameters] == list(model.parameters())
    assert sum(layer.elements for layer in layers) == whole(model)[0].elements
    assert sum(layer.share for layer in layers) == pytest.approx(1)


def test_shares_are_those_of_the_multiply_adds() -> None:
    workload = find("digits-mlp-large")
    shares = [layer.share for layer in layers_of(workload, workload.model())]
    products = [64 * 512, 512 * 512, 512 * 10]
    assert shares == pytest.approx([n / sum(products) for n in products])
    convolutions = find("digits-cnn")
    shares = [layer.share for layer in layers_of(convolutions, convolutions.model())]
    products = [16 * 9 * 64, 32 * 16 * 9 * 16, 128 * 64, 64 * 10]
    assert shares == pytest.approx([n / sum(products) for n in products])


def test_what_is_not_trained_is_in_no_layer() -> None:
    workload = find("digits-mlp-large")
    model = workload.model()
    model.get_submodule("2").requires_grad_(False)
    first, last = layers_of(workload, model)
    assert (first.elements, last.elements, whole(model)[0].elements) == (65 * 512, 513 * 10, 65 * 512 + 513 * 10)
    assert (first.share, last.share) == pytest.approx((64 / 74, 10 / 74))


def test_a_line_says_a_profile() -> None:
    workload = find("layers-2x30@2+100@0.5+7")
    layers = layers_of(workload, workload.model())
    assert [layer.elements for layer in layers] == [30, 30, 100, 7]
    assert [layer.share for layer in layers] == pytest.approx([2 / 5.5, 2 / 5.5, 0.5 / 5.5, 1 / 5.5])
    model = workload.model()
    x = torch.arange(167.0)
    model(x).backward()
    assert torch.equal(torch.cat([p.grad for p in model.parameters() if p.grad is not None]), x)


@pytest.mark.parametrize(
    "name", ["layers-", "layers-0", "layers-5+", "layers-x", "layers-2x0", "layers-9999x1", "layers-5@0", "layers-5@-1"]
)
def test_what_no_layers_can_be_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is unknown: choose one of"):
        find(name)


AFTER_A_FORK = """
import os, sys
import torch
from inalab.hosts.training.replica import preload

torch.set_num_threads(2)
torch.zeros(1_000_000).add_(1)  # by both threads
if not (pid := os.fork()):
    preload("vgg-like", "barrier")
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_forked_process_does_not_wait_for_threads_that_it_does_not_have() -> None:
    subprocess.run([sys.executable, "-c", AFTER_A_FORK], timeout=60, check=True, cwd=ROOT)
