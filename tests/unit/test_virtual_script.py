"""`inalab launch --target virtual`: scripts whose collectives take place in virtual time, without a network or root."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SMALL = ("--set", "racks=2", "--set", "workers=1", "--set", "slots=16")
BEGIN = "import os, torch, torch.distributed as dist\ndist.init_process_group('ina')\nrank = dist.get_rank()\n"


def launch(tmp_path: Path, source: str, *words: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "script.py"
    script.write_text(BEGIN + source)
    command = [sys.executable, "-m", "inalab.testbed.command.cli", "launch", "--target", "virtual", *SMALL, *words, "--", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


def printed(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Lines of all workers, in order; without what PyTorch warns of, with the time."""
    return sorted(line for line in done.stdout.splitlines() if "[W" not in line)


EVERYTHING = """
from torch.nn.parallel import DistributedDataParallel
from inalab.hosts.training.pace import pace
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(40, 30))
for step in range(3):
    with pace.compute():
        loss = model(torch.full((2, 40), 1.0 + rank + step)).square().mean()
    loss.backward()
print('gradient', float(model.module.weight.grad.sum()))
given = torch.ones(2) if rank == 0 else torch.zeros(2)
dist.send(given, 1) if rank == 0 else dist.recv(given, 0)
dist.broadcast(given, 1)
both = [torch.zeros(1) for _ in range(2)]
dist.all_gather(both, torch.tensor([float(rank)]))
print('got', given.tolist(), [float(x) for x in both])
dist.destroy_process_group()
dist.init_process_group('ina')
work = dist.all_reduce(torch.full((500,), 1 + rank, dtype=torch.int32), async_op=True)
print('summed', work.wait(), work.result()[0][0].item())
dist.destroy_process_group()
"""


def test_a_script_gives_the_same_twice_to_the_last_digit_of_its_times(tmp_path: Path) -> None:
    """DDP, Gloo's collectives, messages from one worker to another, and a second group; at 100 Gbit/s as at 10 Mbit/s."""
    words = ("--set", "loss=0.05", "--set", "compute_ms=50", "--set", "straggler=slow", "--check-sums")
    first, again = (launch(tmp_path, EVERYTHING, *words) for _ in range(2))
    assert first.returncode == 0, first.stderr
    lines = printed(first)
    assert lines == printed(again) and first.stderr == again.stderr
    assert len({line.partition(" ")[2] for line in lines if "gradient" in line}) == 1
    assert {"[0] got [1.0, 1.0] [0.0, 1.0]", "[1] got [1.0, 1.0] [0.0, 1.0]", "[0] summed True 3"} <= {*lines}
    assert (
        "s of virtual time" in first.stderr and "as exact as switchml states" in first.stderr and "may differ" not in first.stderr
    )
    fast = launch(tmp_path, EVERYTHING, "--set", "host_rate=100000", "--set", "uplink_rate=100000", "--set", "costs=none")
    assert fast.returncode == 0 and "median all-reduce 0.0 ms" in fast.stderr
    assert [line for line in printed(fast) if "gradient" in line] == [line for line in lines if "gradient" in line]


@pytest.mark.parametrize(
    ("source", "code", "sentence"),
    [
        ("raise SystemExit(3) if rank == 1 else dist.all_reduce(torch.ones(9))", 3, "worker 1 ended with exit code 3"),
        ("os.kill(os.getpid(), 9) if rank == 0 else dist.barrier()", 137, "worker 0 was killed by SIGKILL"),
        (
            "dist.barrier() if rank else dist.all_reduce(torch.ones(9))",
            1,
            "all_reduce over switchml on worker 0, Gloo's on worker 1",
        ),
    ],
)
def test_workers_whose_calls_differ_or_who_end_are_named(tmp_path: Path, source: str, code: int, sentence: str) -> None:
    done = launch(tmp_path, source)
    assert done.returncode == code and sentence in done.stdout + done.stderr


def test_what_waits_for_something_else_goes_on_and_the_launcher_says_so(tmp_path: Path) -> None:
    """Worker 1 has its sum first, and waits for a file that worker 0 writes once it has its own: only time brings that."""
    flag = str(tmp_path / "flag")
    source = f"""
import pathlib, time
dist.all_reduce(torch.ones(900))
if rank == 1:
    while not pathlib.Path({flag!r}).exists():
        time.sleep(0.05)
else:
    pathlib.Path({flag!r}).touch()
dist.all_reduce(torch.ones(900))
"""
    done = launch(tmp_path, source)
    assert done.returncode == 0, done.stderr


def test_who_has_a_sum_and_goes_on_is_no_reason_to_give_up(tmp_path: Path) -> None:
    """Where much is lost, one worker waits in Gloo's barrier, or has ended, while another still recovers its result."""
    source = "for _ in range(4):\n    dist.all_reduce(torch.ones(3000))\n    dist.barrier()\n"
    done = launch(
        tmp_path, source + "dist.destroy_process_group()\n", "--set", "loss=0.4", "--set", "workers=2", "--set", "slots=64"
    )
    assert done.returncode == 0 and "4 all-reduces" in done.stderr, done.stdout + done.stderr


def test_torchrun_is_refused(tmp_path: Path) -> None:
    done = launch(tmp_path, "", "--torchrun")
    assert done.returncode == 1 and "leave --torchrun out" in done.stderr


ASYNCHRONOUS = """
import inalab
torch.manual_seed(rank)
model = torch.nn.Linear(20, 5)
trained = inalab.Asynchronous(model, torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9))
wanted, draw = torch.arange(100.0).view(5, 20) / 100, torch.Generator().manual_seed(rank)
pushed = []
for step in range(60):
    x = torch.randn(32, 20, generator=draw)
    model.zero_grad()
    loss = (model(x) - x @ wanted.T).square().mean()
    loss.backward()
    pushed.append(trained.step())
version = trained.end()
print('model', float(model.weight.double().sum()), 'version', version)
x = torch.randn(500, 20, generator=torch.Generator().manual_seed(9))
learns = float((model(x) - x @ wanted.T).square().mean().detach()) < 0.5
kept = [each.delay for each in pushed if not each.dropped]
print('learns', learns, 'dropped', sum(each.dropped for each in pushed), 'late', max(kept))
dist.destroy_process_group()
"""


@pytest.mark.parametrize("words", ["async", "ssp --set staleness=1", "mlfabric", "mlfabric --set mlfabric.delay=1", "byteps"])
def test_a_script_trains_asynchronously(words: str, tmp_path: Path) -> None:
    """All workers end with the same weights, in which is every change that was not dropped."""
    done = launch(tmp_path, ASYNCHRONOUS, "--scheme", *words.split(), "--set", "workers=2")
    assert done.returncode == 0, done.stderr
    lines = [line.partition(" ")[2] for line in printed(done)]
    learnt = [line.split() for line in lines if line.startswith("learns")]
    assert len(learnt) == 4 and all(line[1] == "True" for line in learnt)
    dropped = sum(int(line[3]) for line in learnt)
    assert dropped == 0 or "delay=1" in words
    assert "delay=1" not in words or all(float(line[5]) <= 1 for line in learnt)
    (model,) = {line for line in lines if line.startswith("model")}
    assert float(model.split()[3]) == 240 - dropped


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (
            "inalab.Asynchronous(torch.nn.Linear(2, 2), None)",
            "scheme switchml keeps no weights: choose async, ssp, mlfabric or byteps",
        ),
        ("inalab.Asynchronous(torch.nn.Linear(2, 2), None, object())", 'schemes of the backend "ina"'),
    ],
)
def test_what_cannot_train_asynchronously_is_said(source: str, sentence: str, tmp_path: Path) -> None:
    done = launch(tmp_path, f"import inalab\n{source}\n")
    assert done.returncode and sentence in done.stdout + done.stderr
