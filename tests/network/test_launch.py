"""How `inalab launch` ends when something of its does: who was killed, whom the survivors miss, and each failure once."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import psutil
import pytest

from tests.command_line import Command, inalab
from tests.network.test_torch_backend import SHAPE, launch

KILLED = "tests/scripts/killed_worker.py"


@pytest.mark.parametrize("words", [(), ("--scheme", "atp"), ("--torchrun",)], ids=["switchml", "atp", "torchrun"])
def test_survivors_name_the_worker_that_was_killed(words: tuple[str, ...]) -> None:
    """Before the survivors are ended."""
    done = launch(*words, "--", KILLED, "float32", check=False)
    assert done.returncode == 137
    assert done.stderr.splitlines()[1:] == ["inalab: worker 1 was killed by SIGKILL"]
    lines = sorted(done.stdout.splitlines())
    assert [line[:3] for line in lines] == ["[0]", "[2]", "[3]"], done.stdout
    for line in lines:
        assert "cannot be completed: worker 1 was killed by SIGKILL; " in line
        assert re.search(r"not seen worker 1$|not seen rack 0 \(workers 0, 1\)$|lacks worker 1$", line), line


@pytest.mark.parametrize("words", [(), ("--torchrun",), ("--scheme", "gloo")], ids=["plain", "torchrun", "gloo"])
def test_a_failure_of_gloo_is_one_line_a_worker(words: tuple[str, ...]) -> None:
    done = launch(*words, "--", KILLED, "float64", check=False)
    assert done.returncode == 137
    assert done.stderr.splitlines()[1:] == ["inalab: worker 1 was killed by SIGKILL"]
    lines = sorted(done.stdout.splitlines())
    assert [line[:3] for line in lines] == ["[0]", "[2]", "[3]"], done.stdout
    for line in lines:
        assert re.search(
            r"worker \d: a collective over Gloo cannot be completed: worker \d has closed its connection \(worker 1 was killed by SIGKILL\)$",
            line,
        ), line


OTHERWISE = {"switchml": "combined over switchml"}  # what carries small float64; with other schemes Gloo does


@pytest.mark.parametrize("scheme", ["switchml", "ring"])
def test_workers_whose_calls_differ_are_told_so(scheme: str) -> None:
    """Each would wait for the others without end: one for their sums over Gloo, they for its packets."""
    done = launch("--scheme", scheme, "--", "tests/scripts/differing_calls.py", check=False)
    assert done.returncode == 1
    assert (
        "the workers differ in call 2 of the group: "
        f"all_reduce of 10 float32 over {scheme} on workers 0, 2, 3; all_reduce of 10 float64 {OTHERWISE.get(scheme, 'over Gloo')} on worker 1"
    ) in done.stdout, done.stdout + done.stderr


def test_survivors_that_go_on_waiting_are_ended_with_a_sentence() -> None:
    done = launch("--", KILLED, "float32", "hang", check=False)
    assert done.returncode == 137
    assert done.stderr.splitlines()[1:] == [
        "inalab: worker 1 was killed by SIGKILL",
        "inalab: worker 3 got SIGKILL, 10 s after this failure: worker 1 was killed by SIGKILL",
    ]


@pytest.mark.parametrize("words", [(), ("--torchrun",)], ids=["plain", "torchrun"])
def test_what_fails_in_the_same_way_on_all_ranks_appears_once(words: tuple[str, ...]) -> None:
    done = launch(*words, "--", "tests/scripts/cannot_import.py", check=False)
    assert done.returncode == 1
    assert done.stdout.count("ModuleNotFoundError") == 1
    assert done.stdout.count("Traceback") == 1
    assert len(done.stdout.splitlines()) < 6
    assert re.search(r"^inalab: workers \d, \d, \d failed in the same way as worker \d$", done.stderr, re.M), done.stderr


def test_a_syntax_error_appears_once_and_no_network_is_made(tmp_path: Path) -> None:
    script = tmp_path / "wrong.py"
    script.write_text("x = (\n")
    done = launch("--", str(script), check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"inalab: {script}, line 1: SyntaxError: '(' was never closed: x = (\n"


def test_a_switch_that_is_killed_is_told_to_all(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch, torch.distributed as dist\ndist.init_process_group('ina')\nprint('ready', flush=True)\n"
        "while True: dist.all_reduce(torch.ones(1000))\n"
    )
    with Command("launch", *SHAPE, "--", str(script)) as process:
        while process.printed()[0].count("ready\n") < 4 and process.poll() is None:
            time.sleep(0.05)
        (switch,) = (p for p in psutil.Process(process.pid).children(recursive=True) if _is_switch(p, "root"))
        os.kill(switch.pid, signal.SIGKILL)
        code = process.wait(30)
        output, errors = process.printed()
    assert code == 1
    assert errors.splitlines() == [
        "inalab: 4 workers in 2 racks of 2, switchml, 100 Mbit/s, no loss, 256 integers in a packet, 64 slots",
        "inalab: switch root was killed by SIGKILL",
    ]
    wording = len(re.findall(r"^\[\d\] .*AggregationError: .*: switch root was killed by SIGKILL; ", output, re.M))
    assert wording == 4, output


def _is_switch(process: psutil.Process, name: str) -> bool:
    return process.name() != "bash" and any(f"{name}-eth0" in word for word in process.cmdline())


@pytest.mark.parametrize("backend", ["gloo", "ina"])
def test_a_model_that_outlives_its_group_does_not_hang(backend: str) -> None:
    done = inalab("launch", *SHAPE, "--", "tests/scripts/model_outlives_group.py", backend, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "gloo threads: none" not in done.stdout  # by the name that launch looks for
    ended = [line for line in done.stdout.splitlines() if line.endswith("ended")]  # the store may warn of a group made again
    assert sorted(ended) == [f"[{rank}] ended" for rank in range(4)]
