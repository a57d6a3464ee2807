"""Groups are made and destroyed at will, and a job that was killed leaves nothing behind for the next on the same switches."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from typing import Any

import numpy as np
import pytest

from inalab.hosts.epoch import draw
from inalab.switches.loss import Loss
from inalab.switches.target import Target
from inalab.testbed.trial.deployment import Deployment
from inalab.testbed.trial.harness import Job, in_network, on_hosts
from inalab.topologies.plan import HostPlan
from inalab.topologies.racks import Racks
from tests.network.test_torch_backend import launch


@pytest.mark.parametrize(
    ("scheme", "loss"),
    [("switchml", 0.02), ("atp", 0.02), ("ring", 0.005), ("ps", 0.005), ("gloo", 0.005)],  # TCP may back off for minutes
)
def test_a_script_makes_and_destroys_its_group_three_times(scheme: str, loss: float) -> None:
    """With loss on every link, and a second group of all workers at the same time; every sum is right."""
    sentences = launch("--scheme", scheme, "--set", f"loss={loss}", "--", "tests/scripts/groups.py").stdout
    found = [json.loads(text) for text in re.findall(r"^\[\d+\] (\{.*\})$", sentences, re.M)]
    assert sorted(worker["rank"] for worker in found) == [0, 1, 2, 3]
    for worker in found:
        for turn, sums in enumerate(worker["had"]):
            assert sums[0::2] == pytest.approx([5.0 * (turn + 1)] * 4, rel=1e-6)
            assert sums[1::2] == [6 + 4 * number for number in range(4)]


def target_of(scheme: str, request: pytest.FixtureRequest) -> Target:
    found: Target = request.getfixturevalue("atp_target" if scheme == "atp" else "target")
    return found


@pytest.mark.parametrize("scheme", ["switchml", "atp"])
def test_the_sum_is_right_after_workers_were_killed_in_the_middle(scheme: str, request: pytest.FixtureRequest) -> None:
    """The second run has the same switches, the same chunk numbers and, of ATP, the same servers; late packets of the first too."""
    racks = Racks(2, 2, host_rate=20.0, uplink_rate=20.0, servers=2 * (scheme == "atp"))
    job = Job(racks, scheme=scheme, loss=Loss.bernoulli(0.02), settings={"slots": 16})

    def for_ever(host: HostPlan) -> int:
        worker = job.worker(host)
        while True:
            worker.all_reduce(np.full(64 * 200, 100 + host.rank, np.int32))

    def work(deployment: Deployment) -> list[Any]:
        network, servers = deployment.network, deployment.spawn_servers()
        found = []
        for turn in range(3):
            object.__setattr__(job, "epoch", draw())
            pids = [network.spawn(host.rank, lambda h=host: for_ever(h)) for host in network.plan.hosts]  # type: ignore[misc]
            time.sleep(1.0 + 0.1 * turn)
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            object.__setattr__(job, "epoch", draw())
            found += on_hosts(network, sums)
        deployment.end_servers(servers)
        return found

    def sums(host: HostPlan) -> bool:
        worker, tensor = job.worker(host), np.arange(64 * 100, dtype=np.int32)
        total = worker.all_reduce(tensor * (host.rank + 1))
        worker.close()
        return bool((total == 10 * tensor).all())

    assert in_network(job, target_of(scheme, request), work) == [True] * 12


@pytest.mark.parametrize("scheme", ["switchml", "atp"])
@pytest.mark.parametrize(
    "other",
    [np.ones(900, np.float32), np.ones(1000, np.int32), np.ones(70_000, np.float32)],
    ids=["other length", "other type", "longer than the pool"],
)
def test_different_tensors_are_an_error_that_says_who_differs(scheme: str, other: np.ndarray, request: Any) -> None:
    racks = Racks(2, 2, host_rate=None, uplink_rate=None, servers=int(scheme == "atp"))
    job = Job(racks, scheme=scheme, loss=Loss.bernoulli(0.02), settings={"slots": 16, "patience": 5.0})

    def on_host(host: HostPlan) -> str:
        worker = job.worker(host)
        try:
            worker.all_reduce(np.ones(1000, np.float32))
            worker.all_reduce(other if host.rank == 2 else np.ones(1000, np.float32))
        except RuntimeError as error:
            return str(error)
        finally:
            worker.close()
        return "finished"

    def work(deployment: Deployment) -> list[str]:
        deployment.spawn_servers()
        return on_hosts(deployment.network, on_host)

    for sentences in in_network(job, target_of(scheme, request), work):
        assert "the workers sum different tensors: 1,000 elements of float32 on workers 0, 1, 3" in sentences
        assert f"{other.size:,} elements of {other.dtype} on worker 2" in sentences
