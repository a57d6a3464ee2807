"""PyTorch scripts on the hosts of a network: init_process_group("ina") does what Gloo does, and errors reach the caller."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from inalab.schemes import registry
from tests.command_line import inalab

COMPARED = 291  # calls of the script beside Gloo's
SHAPE = ["--set", "racks=2", "--set", "workers=2", "--set", "host_rate=100", "--set", "uplink_rate=100"]


def launch(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = inalab("launch", *SHAPE, *words)
    if check:
        done.check_returncode()
    return done


def collectives(backend: str, *words: str, script: str = "collectives") -> list[dict[str, Any]]:
    """What each worker had, in the order of ranks."""
    sentences = launch(*words, "--", f"tests/scripts/{script}.py", backend).stdout
    found = {int(rank): json.loads(text) for rank, text in re.findall(r"^\[(\d+)\] (\{.*\})$", sentences, re.M)}
    return [found[rank] for rank in range(4)]


@pytest.fixture(scope="module")
def gloo() -> list[dict[str, Any]]:
    return collectives("gloo", "--scheme", "gloo")


def equal(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.pop("backend") == "ina"
        for name in mine:
            if isinstance(mine[name], list) and mine[name] and isinstance(mine[name][0], float):
                assert mine[name] == pytest.approx(other[name], rel=1e-3, abs=1e-3), name
            else:
                assert mine[name] == other[name], name


@pytest.mark.parametrize(
    "words", [(), ("--set", "loss=0.003"), ("--torchrun",), ("--scheme", "atp")], ids=["plain", "loss", "torchrun", "atp"]
)
def test_ina_does_as_gloo(words: tuple[str, ...], gloo: list[dict[str, Any]]) -> None:
    equal(collectives("ina", *words), [dict(worker) for worker in gloo])


def test_ways_of_training_end_as_over_gloo() -> None:
    """DDP and its hooks, FSDP2, HSDP, sharded optimizers, uneven data, DTensors and functional collectives."""
    gloo = collectives("gloo", "--scheme", "gloo", script="trainings")
    for scheme in ("switchml", "atp"):
        equal(collectives("ina", "--scheme", scheme, script="trainings"), [dict(worker) for worker in gloo])


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        ("operation", "10 elements of float32 on workers 0, 2, 3; 10 elements of float32 for average on worker 1"),
        ("size", "16 elements of float32 on workers 0, 2, 3; 17 elements of float32 on worker 1"),
        ("collective", "400 elements of float32 for reduce_scatter on workers 0, 2, 3; 400 elements of float32 on worker 1"),
        (
            "dtype",
            "call 1 of the group: all_reduce of 100 float32 over switchml on workers 0, 2, 3; all_reduce of 100 float64 over Gloo",
        ),
    ],
)
def test_workers_that_call_differently_are_named(mistake: str, told: str) -> None:
    done = launch("--", "tests/scripts/mistakes.py", mistake, check=False)
    assert "[0] told: worker 0: job 0" in done.stdout and told in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("words", [(), ("--scheme", "atp", "--set", "loss=0.003")], ids=["switchml", "atp"])
def test_every_collective_operation_dtype_and_layout_does_as_gloo(words: tuple[str, ...]) -> None:
    """The script sets MASTER_ADDR to localhost, too, which `inalab launch` puts right and says."""
    done = launch(*words, "--", "tests/scripts/walk.py")
    said = sorted(line for line in done.stdout.splitlines() if line.startswith("["))
    put_right = said.pop(1)
    assert put_right.startswith("[0] inalab: the script sets MASTER_ADDR to localhost")
    assert said == [f"[{rank}] compared {COMPARED}" for rank in range(4)]


def test_random_programs_in_random_groups_end_as_over_gloo() -> None:
    """Several groups at once, calls of several kinds under way together, all dtypes, dense and strided."""
    done = launch("--set", "loss=0.01", "--", "tests/scripts/programs.py", "1", "50")
    said = [line for line in done.stdout.splitlines() if "Warning" not in line and "return func" not in line]
    assert len(said) == 4 and all(re.fullmatch(r"\[\d\] compared \d\d+", line) for line in said), said
    assert "carried" in done.stderr and "have no part" not in done.stdout


def test_a_worker_that_calls_otherwise_than_the_others_is_named_to_all() -> None:
    """By the scheme or by Gloo, in size, dtype, operation, root or collective; each time in a new group."""
    done = launch("--", "tests/scripts/one_off.py", "1", "7")
    told = [line for line in done.stdout.splitlines() if "] program" in line]
    assert len(re.findall(r"^\[\d\] told ", done.stdout, re.M)) == 4 and len(told) >= 14
    assert all("the workers differ in call" in line or "the workers sum different" in line for line in told), told


def test_a_group_that_is_destroyed_or_whose_process_has_forked_leaves_its_port_to_the_next() -> None:
    """One with a call under way that never ends, and one whose child lives on; and a parameter is broadcast."""
    done = launch("--", "tests/scripts/successors.py")
    assert sorted(line for line in done.stdout.splitlines() if line.startswith("[")) == [f"[{rank}] 5 groups" for rank in range(4)]


@pytest.mark.parametrize("model", ["mlp", "transformer"])
def test_an_ordinary_ddp_script_ends_alike_with_one_word_changed(model: str) -> None:
    """Loss and accuracy on what was not trained on: the sums differ by rounding alone."""
    ended = []
    for backend, scheme in (("gloo", "gloo"), ("ina", "switchml")):
        script = ["experiments/scripts/train_ddp.py", "--backend", backend, "--model", model, "--steps", "12"]
        sentences = launch("--scheme", scheme, "--", *script).stdout
        found = re.search(rf"^\[0\] {backend} {model}: loss ([\d.]+), accuracy ([\d.]+)", sentences, re.M)
        assert found, sentences
        ended.append([float(word) for word in found.groups()])
    assert ended[1] == pytest.approx(ended[0], rel=2e-3, abs=3e-3)


def test_what_gloo_carries_is_on_the_data_network_whatever_the_scheme() -> None:
    """Four workers gather 100 kB each: every host receives the others' three over its data link, at 10 Mbit/s."""
    sentences = launch("--set", "host_rate=10", "--", "tests/scripts/gathers.py").stdout
    found = re.findall(r"^\[\d\] (\w+): (\d+) bytes of data, (\d+) of management, ([\d.]+) s$", sentences, re.M)
    assert sorted(backend for backend, *_ in found) == ["gloo"] * 4 + ["ina"] * 4, sentences
    for _, data, management, seconds in found:
        assert 300_000 < int(data) < 400_000
        assert int(management) < 50_000
        assert float(seconds) > 0.2


def test_errors_reach_the_caller_of_ddp() -> None:
    done = launch("--set", "patience=1", "--", "tests/scripts/missing_worker.py", check=False)
    assert done.returncode == 3
    assert "worker 1 ended with exit code 3" in done.stderr
    for rank in (0, 2, 3):
        assert re.search(
            rf"^\[{rank}\] told: .*AggregationError: worker {rank}: job 0, slot \d+, chunk \d+ cannot be completed",
            done.stdout,
            re.M,
        )
        assert re.search(rf"^\[{rank}\] AggregationError worker {rank}: ", done.stdout, re.M)
    assert "has not seen worker 1" in done.stdout


def test_the_timeout_of_init_process_group_ends_a_sum_that_waits_for_somebody() -> None:
    sentences = launch("--", "tests/scripts/late_worker.py").stdout
    for rank in (0, 2, 3):
        wording = (
            rf"^\[{rank}\] told: worker {rank}: job 0, .* it was not over after 10 s, the timeout of the group; .*workers? (0, )?1"
        )
        assert re.search(wording, sentences, re.M), sentences


def test_without_a_network_one_sentence_says_what_to_do() -> None:
    program = 'import torch.distributed as d; d.init_process_group("ina", rank=0, world_size=1, store=d.HashStore())'
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "needs a network: start the script with `inalab launch -- SCRIPT`" in done.stderr


def test_wrong_words_and_a_wrong_script() -> None:
    assert "there is no script nosuch.py" in launch("--", "nosuch.py", check=False).stderr
    refused = launch("--scheme", "nccl", "--", "tests/scripts/collectives.py", check=False)
    assert refused.returncode == 1
    assert f"scheme nccl is unknown: choose one of {', '.join(registry.names())}" in refused.stderr


@pytest.mark.parametrize("scheme", ["byteps", "switchml", "gloo"])
def test_cross_barrier_trains_what_ddp_trains(scheme: str) -> None:
    """To the bit where a sum does not depend on how tensors are cut."""
    sentences = launch("--scheme", scheme, "--", "tests/scripts/cross_barrier.py", "ina").stdout
    found = [json.loads(text) for text in re.findall(r"^\[\d\] (\{.*\})$", sentences, re.M)]
    assert len(found) == 4
    assert all(worker["close"] and not worker["left"] for worker in found)
    if scheme == "byteps":
        assert all(worker["equal"] for worker in found)
