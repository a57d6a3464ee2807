"""ATP end to end: real interfaces, switches and servers, the exact integer sum on every worker, and nothing held afterwards."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from threading import Timer
from typing import Any

import numpy as np
import pytest

from inalab.hosts.drivers.stream import StreamDriver
from inalab.hosts.messages import Message, Step
from inalab.switches.loss import Loss
from inalab.switches.target import Target
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.trial.deployment import Deployment
from inalab.testbed.trial.errors import TrialError
from inalab.testbed.trial.harness import Job, in_network, on_hosts
from inalab.topologies.plan import HostPlan
from inalab.topologies.racks import Racks
from tests.network.running import run_trial
from tests.network.test_trials import SMALL, worker_pid

FAST = {"host_rate": None, "uplink_rate": None}


def play(job: Job, target: Target, on_host: Callable[[HostPlan], Any]) -> tuple[list[Any], int]:
    """What every host makes of it, and how many aggregators are held when all have left."""

    def work(deployment: Deployment) -> tuple[list[Any], int]:
        servers = deployment.spawn_servers()
        found = on_hosts(deployment.network, on_host)
        deployment.end_servers(servers)
        return found, sum(bits != 0 for c in deployment.network.controls.values() for bits in c.registers("aggregator.bitmap"))

    return in_network(job, target, work)  # type: ignore[no-any-return]


def run(job: Job, target: Target, tensors: list[np.ndarray], times: int = 1) -> tuple[list[list[Any]], int]:
    """Every host's sums, and how many aggregators are held afterwards."""

    def on_host(host: HostPlan) -> list[np.ndarray]:
        worker = job.worker(host)
        sums = [worker.all_reduce(tensors[host.rank]) for _ in range(times)]
        worker.close()
        return sums

    return play(job, target, on_host)


SHAPES = [(Racks(1, 3, **FAST, servers=1), 1), (Racks(2, 2, **FAST, servers=2), 1), (Racks(2, 3, **FAST, servers=3), 3)]


@pytest.mark.parametrize("aggregators", [4, 4096])
@pytest.mark.parametrize("loss", [0.0, 0.01, 0.1])
@pytest.mark.parametrize(("racks", "jobs"), SHAPES, ids=["one rack", "two racks", "three jobs over two racks"])
def test_integers_are_summed_exactly_whatever_is_lost(
    atp_target: Target, racks: Racks, jobs: int, loss: float, aggregators: int
) -> None:
    rng = np.random.default_rng(11)
    tensors = [rng.integers(-(2**24), 2**24, 3_000, dtype=np.int32) for _ in range(racks.size)]
    model = Loss.bernoulli(loss) if loss else None
    job = Job(racks, loss=model, scheme="atp", jobs=jobs, settings={"slots": 16, "aggregators": aggregators})
    sums, held = run(job, atp_target, tensors, times=2)
    for one in job.admitted(job.plan()):
        exact = np.sum([tensors[host.rank] for host in one.plan.hosts], axis=0)
        for host in one.plan.hosts:
            for total in sums[host.rank]:
                np.testing.assert_array_equal(total, exact)
    assert held == 0


def test_values_that_do_not_fit_are_added_at_the_server(atp_target: Target) -> None:
    """Beyond the fixed factor's range, alone or in the sum, NaN and infinity included; small ones stay integers."""
    racks = Racks(2, 2, **FAST, servers=1)
    rng = np.random.default_rng(3)
    floats = [rng.standard_normal(2_000).astype(np.float32) for _ in range(racks.size)]
    for x in floats:
        x[64:128] *= 1e20
        x[300] = 15.0  # fits alone, and not four times
    floats[2][700] = np.nan
    floats[1][900] = np.inf
    sums, held = run(Job(racks, scheme="atp", settings={"slots": 16}), atp_target, floats)
    exact = np.sum(np.array(floats, np.float64), axis=0)
    for (total,) in sums:
        np.testing.assert_allclose(total, exact, rtol=1e-6, atol=4e-8)
        assert total.tobytes() == sums[0][0].tobytes()
    assert np.isnan(sums[0][0][700]) and np.isinf(sums[0][0][900])
    assert held == 0
    integers = [np.full(500, 2**30 + rank, np.int32) for rank in range(racks.size)]
    sums, _ = run(Job(racks, scheme="atp", settings={"slots": 16}), atp_target, integers)
    np.testing.assert_array_equal(sums[3][0], np.int32(6))  # modulo 2^32, as sums of int32 are


def test_shapes_dtypes_and_the_stream_across_calls(atp_target: Target) -> None:
    racks = Racks(1, 2, **FAST, servers=1)
    job = Job(racks, scheme="atp", settings={"slots": 4})

    def on_host(host: HostPlan) -> list[np.ndarray]:
        worker = job.worker(host)
        results = [worker.all_reduce(np.full((n, 3), host.rank + 1, d)) for n in (1, 50, 7, 200) for d in (np.float32, np.int32)]
        results.append(worker.all_reduce(np.empty(0, np.float32)))
        with pytest.raises(TypeError, match="float64 cannot"):
            worker.all_reduce(np.zeros(3))
        worker.close()
        return results

    for results in play(job, atp_target, on_host)[0]:
        shapes = [(n, 3) for n in (1, 50, 7, 200) for _ in range(2)]
        for total, shape in zip(results, shapes, strict=False):
            assert total.shape == shape
            np.testing.assert_allclose(total, 3, rtol=1e-6)
        assert results[-1].shape == (0,)


def test_a_silent_worker_is_named(atp_target: Target) -> None:
    """Worker 2 joins and never sends: the others say who is missing, with job and chunk."""
    job = Job(Racks(2, 2, **FAST, servers=1), scheme="atp", settings={"slots": 4, "patience": 4.0})

    def on_host(host: HostPlan) -> str:
        worker = job.worker(host)
        try:
            if host.rank == 2:
                time.sleep(12)
                return ""
            worker.all_reduce(np.ones(500, np.float32))
        except RuntimeError as error:
            return str(error)
        finally:
            worker.close()
        return "finished"

    sentences, held = play(job, atp_target, on_host)
    for rank in (0, 1, 3):
        assert f"worker {rank}: job 0, chunk 0 cannot be completed: nothing arrived for 4 s" in sentences[rank]
        whom = (
            "the switch of rack 1 has not seen worker 2" if rank == 3 else "the switch of rack 0 has not seen rack 1 (workers 2, 3)"
        )
        assert whom in sentences[rank]
    assert held == 0


def test_a_server_that_is_gone_is_named(atp_target: Target) -> None:
    job = Job(Racks(1, 2, **FAST, servers=1), scheme="atp", settings={"slots": 4, "patience": 1.0})
    with pytest.raises(TrialError, match="job 0 cannot be completed: server 0 cannot be reached"):
        in_network(job, atp_target, lambda deployment: on_hosts(deployment.network, job.worker))


def test_a_killed_server_is_named_at_once(atp_target: Target) -> None:
    job = Job(Racks(1, 2, **FAST, servers=2), scheme="atp", settings={"slots": 16})

    def on_host(host: HostPlan) -> str:
        worker, begun = job.worker(host), time.monotonic()
        try:
            while time.monotonic() < begun + 20:
                worker.all_reduce(np.ones(64 * 500, np.int32))
        except RuntimeError as error:
            return str(error)
        finally:
            worker.close()
        return "finished"

    def work(deployment: Deployment) -> list[str]:
        servers = list(deployment.spawn_servers())
        Timer(1.5, os.kill, (servers[1], signal.SIGKILL)).start()
        return on_hosts(deployment.network, on_host)

    for sentences in in_network(job, atp_target, work):
        assert "cannot be completed: server 1 is gone" in sentences


def test_a_killed_worker_ends_the_trial_by_name(atp_target: Target) -> None:
    def on_event(message: Message) -> None:
        if isinstance(message, Step) and (message.number, message.rank) == (2, 1):
            os.kill(worker_pid(1), signal.SIGKILL)

    with pytest.raises(TrialError, match=r"worker 1 was killed by SIGKILL; worker \d: job 0, chunk \d+ cannot be completed"):
        run_trial(TrialSettings(**{**SMALL, "scheme": "atp", "steps": 2000}), 1, atp_target, on_event)


def test_after_a_killed_worker_the_table_is_empty(atp_target: Target) -> None:
    job = Job(Racks(2, 2, **FAST, servers=2), scheme="atp", settings={"slots": 16, "patience": 4.0})

    def on_host(host: HostPlan) -> str:
        worker = job.worker(host)
        assert isinstance(worker, StreamDriver) and worker.control
        try:
            for turn in range(1000):
                if host.rank == 1 and turn == 3:
                    worker.start(np.ones(64 * 500, np.int32))  # has sent a window when it is killed
                    worker.control.close()  # what the kernel does for it
                    return "killed"
                worker.all_reduce(np.ones(64 * 500, np.int32))
        except RuntimeError as error:
            return str(error)
        finally:
            worker.close()
        return "finished"

    sentences, held = play(job, atp_target, on_host)
    assert sentences[1] == "killed"
    assert all("cannot be completed" in sentences[rank] for rank in (0, 2, 3))
    assert held == 0
