"""All-reduce by messages between workers, end to end: the exact sum, within the time that the oracle gives."""

from __future__ import annotations

import numpy as np
import pytest

from inalab.schemes.oracle import seconds
from inalab.switches.target import Target
from inalab.testbed.trial.errors import TrialError
from inalab.testbed.trial.harness import Job, all_reduce, as_tensors, in_network, on_hosts
from inalab.topologies.plan import HostPlan, NetworkPlan
from inalab.topologies.racks import Racks
from tests.scheduled import SCHEDULES

FAST = {"host_rate": None, "uplink_rate": None}
# of the oracle's rate. Acknowledgements wait behind data in the one queue of a link, the more so the more partners a worker
# talks with at once; a ring's neighbours hardly disturb each other, and other work on the machine made it 0.76
TURNS = 4  # the first, in which TCP's windows open, does not count; other work on the machine may slow down some
HEADERS = 1538 / 1448  # bytes on the wire for those in a full TCP segment with time stamps


@pytest.mark.parametrize("scheme", SCHEDULES)
@pytest.mark.parametrize("shape", [(1, 4), (2, 2)])
def test_exact_sums_and_equal_floats(scheme: str, shape: tuple[int, int], target: Target) -> None:
    racks = Racks(*shape, **FAST, servers=3 * (scheme == "ps"))
    rng = np.random.default_rng(2)
    integers = [rng.integers(-(2**24), 2**24, (1001, 3), dtype=np.int32) for _ in range(racks.size)]
    for host in all_reduce(Job(racks, scheme=scheme), target, integers, times=2):
        for turn in host:
            np.testing.assert_array_equal(turn["sum"], np.sum(integers, axis=0))
    floats = as_tensors(racks, 50_000)
    sums = [host[0]["sum"] for host in all_reduce(Job(racks, scheme=scheme), target, floats)]
    np.testing.assert_allclose(sums[0], np.sum(floats, axis=0), rtol=1e-4, atol=1e-4)
    assert len({total.tobytes() for total in sums}) == 1


@pytest.mark.parametrize("oversubscribed", [False, True], ids=["one rack", "two racks, 4:1"])
@pytest.mark.parametrize("scheme", SCHEDULES)
def test_nobody_is_faster_than_the_oracle(scheme: str, oversubscribed: bool, target: Target) -> None:
    shape = (2, 2, 25.0, 12.5) if oversubscribed else (1, 4, 25.0, 25.0)
    racks, elements = Racks(*shape, servers=2 * (scheme == "ps")), 150_000
    turns = all_reduce(Job(racks, scheme=scheme), target, as_tensors(racks, elements), times=TURNS)
    fastest = min(max(host[turn]["seconds"] for host in turns) for turn in range(1, TURNS))
    bound = HEADERS * seconds(SCHEDULES[scheme](racks.size, racks.servers), NetworkPlan(racks), 4 * elements)
    assert bound / fastest < 1.02


def told_without_the_second(job: Job, target: Target) -> list[str]:
    """What each worker says when the second of three leaves before a sum."""

    def on_host(host: HostPlan) -> str:
        worker = job.worker(host)
        if host.rank == 1:
            worker.close()
            return ""
        try:
            worker.all_reduce(np.ones(500_000, np.float32))
        except RuntimeError as error:
            return str(error)
        return "finished"

    return in_network(job, target, lambda deployment: on_hosts(deployment.network, on_host))


def test_a_worker_that_is_gone_is_named(target: Target) -> None:
    job = Job(Racks(1, 3, **FAST), scheme="ring", settings={"patience": 1.0})
    sentences = told_without_the_second(job, target)
    assert all("job 0 cannot be completed: step 0: worker" in sentences[rank] for rank in (0, 2))
    assert "worker 1 is gone" in sentences[0] + sentences[2]  # who is told of it second may name who was told first
    with pytest.raises(TrialError, match=r"worker 0 cannot be reached|did not connect"):
        in_network(
            job, target, lambda deployment: on_hosts(deployment.network, lambda host: host.rank and job.worker(host).close())
        )
