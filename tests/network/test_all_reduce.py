"""All-reduce end to end: real interfaces, real switches, the exact integer sum on every worker."""

from __future__ import annotations

import numpy as np
import pytest

from inalab.switches.loss import Loss
from inalab.switches.target import Target
from inalab.testbed.trial.deployment import Deployment
from inalab.testbed.trial.errors import TrialError
from inalab.testbed.trial.harness import Job, all_reduce, in_network, on_hosts
from inalab.topologies.plan import HostPlan
from inalab.topologies.pods import Pods
from inalab.topologies.racks import Racks
from inalab.topologies.topology import Topology
from tests.floats import dequantized, exponents, quantized

FAST = {"host_rate": None, "uplink_rate": None}


def integers(racks: Topology, elements: int) -> list[np.ndarray]:
    rng = np.random.default_rng(11)
    return [rng.integers(-(2**24), 2**24, elements, dtype=np.int32) for _ in range(racks.size)]


@pytest.mark.parametrize("loss", [0.0, 0.01, 0.1])
@pytest.mark.parametrize("shape", [(1, 3), (2, 2), (3, 1)])
def test_integers_are_summed_exactly_whatever_is_lost(target: Target, shape: tuple[int, int], loss: float) -> None:
    racks = Racks(*shape, **FAST)
    tensors = integers(racks, 5_000)
    job = Job(racks, loss=Loss.bernoulli(loss) if loss else None, settings={"slots": 16})
    exact = np.sum(tensors, axis=0)
    for host in all_reduce(job, target, tensors, times=2):
        for turn in host:
            np.testing.assert_array_equal(turn["sum"], exact)


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_three_levels_of_switches_sum_exactly(target: Target, loss: float) -> None:
    pods = Pods(3, 2, pods=2, core_rate=None, **FAST)
    tensors = integers(pods, 3_000)
    job = Job(pods, loss=Loss.bernoulli(loss) if loss else None, settings={"slots": 16})
    for host in all_reduce(job, target, tensors, times=2):
        for turn in host:
            np.testing.assert_array_equal(turn["sum"], np.sum(tensors, axis=0))


def test_bursty_loss(target: Target) -> None:
    racks = Racks(2, 2, **FAST)
    tensors = integers(racks, 3_000)
    job = Job(racks, loss=Loss.gilbert_elliott(0.05, 6), settings={"slots": 16})
    for host in all_reduce(job, target, tensors):
        np.testing.assert_array_equal(host[0]["sum"], np.sum(tensors, axis=0))


def float_sum(tensors: list[np.ndarray], k: int) -> np.ndarray:
    """The sum as quantization alone makes it, without packets."""
    n, elements = len(tensors), tensors[0].size
    padded = [np.pad(t.reshape(-1), (0, -elements % k)).reshape(-1, k) for t in tensors]
    codes = np.max([exponents(p) for p in padded], axis=0)
    total = np.sum([quantized(p, codes, n).astype(np.int64) for p in padded], axis=0)
    return dequantized(total.astype(np.int32), codes, n).reshape(-1)[:elements]


@pytest.mark.parametrize("loss", [0.0, 0.02])
def test_floats_of_any_size_are_the_quantized_sum_bit_for_bit(small_target: Target, loss: float) -> None:
    """One size after another, as a model's tensors are."""
    job = Job(Racks(1, 3, **FAST), loss=Loss.bernoulli(loss) if loss else None, settings={"slots": 16, "k": 32})
    rng = np.random.default_rng(3)
    tensors = []
    for elements in (1, 31, 32, 33, 64 * 16 + 5, 3000):
        of_workers = (rng.standard_normal((3, elements)) * 10.0 ** rng.integers(-30, 30, (3, elements))).astype(np.float32)
        of_workers[0, : elements // 3] = 0
        tensors.append(of_workers)

    def on_host(host: HostPlan) -> list[np.ndarray]:
        worker = job.worker(host)
        return [worker.all_reduce(of_workers[host.rank]) for of_workers in tensors]

    for sums in in_network(job, small_target, lambda deployment: on_hosts(deployment.network, on_host)):
        for total, of_workers in zip(sums, tensors, strict=True):
            assert total.tobytes() == float_sum(list(of_workers), 32).tobytes()


def test_one_worker_and_not_finite_values(small_target: Target) -> None:
    x = np.arange(100, dtype=np.float32)
    x[40] = np.nan
    ((turn,),) = all_reduce(Job(Racks(1, 1, **FAST), settings={"slots": 4, "k": 32}), small_target, [x])
    total = turn["sum"]
    assert np.isnan(total[40])
    np.testing.assert_allclose(np.delete(total, 40), np.delete(x, 40), rtol=1e-6)


def test_shapes_dtypes_and_the_stream_across_calls(small_target: Target) -> None:
    job = Job(Racks(1, 2, **FAST), settings={"slots": 4, "k": 32})

    def on_host(host: HostPlan) -> list[np.ndarray]:
        worker = job.worker(host)
        results = [worker.all_reduce(np.full((n, 3), host.rank + 1, d)) for n in (1, 50, 7, 200) for d in (np.float32, np.int32)]
        results.append(worker.all_reduce(np.empty(0, np.float32)))
        with pytest.raises(TypeError, match="float64 cannot"):
            worker.all_reduce(np.zeros(3))
        return results

    for results in in_network(job, small_target, lambda deployment: on_hosts(deployment.network, on_host)):
        shapes = [(n, 3) for n in (1, 50, 7, 200) for _ in range(2)]
        for total, shape in zip(results, shapes, strict=False):
            assert total.shape == shape
            np.testing.assert_allclose(total, 3, rtol=1e-6)
        assert results[-1].shape == (0,)


def told_without(silent: int, job: Job, target: Target) -> list[str]:
    """What each worker says when one takes part and never sends."""

    def on_host(host: HostPlan) -> str:
        worker = job.worker(host)
        if host.rank == silent:
            return ""
        try:
            worker.all_reduce(np.ones(500, np.float32))
        except RuntimeError as error:
            return str(error)
        return "finished"

    return in_network(job, target, lambda deployment: on_hosts(deployment.network, on_host))


def test_a_silent_worker_is_named(small_target: Target) -> None:
    """Worker 2 never sends: the others, in its rack and in the other, say who is missing, with job, slot and chunk."""
    job = Job(Racks(2, 2, **FAST), settings={"slots": 4, "k": 32, "patience": 5.0})

    sentences = told_without(2, job, small_target)
    for rank in (0, 1):
        assert "job 0, slot 0, chunk 0 cannot be completed" in sentences[rank]
        assert "the root has not seen rack 1 (workers 2, 3)" in sentences[rank]
    assert "the switch of rack 1 has not seen worker 2" in sentences[3]


@pytest.mark.parametrize(
    ("silent", "sentences"),
    [
        (2, {3: "the switch of rack 1 has not seen worker 2", 0: "the switch of pod 0 has not seen rack 1 (workers 2, 3)"}),
        (4, {5: "the switch of rack 2 has not seen worker 4", 0: "the core has not seen rack 2 (workers 4, 5); rack 3"}),
    ],
)
def test_a_silent_worker_is_named_across_pods(small_target: Target, silent: int, sentences: dict[int, str]) -> None:
    """Each worker learns of the lowest switch that lacks somebody: its rack's, its pod's, or the core."""
    job = Job(Pods(4, 2, pods=2, core_rate=None, **FAST), settings={"slots": 4, "k": 32, "patience": 5.0})

    wording = told_without(silent, job, small_target)
    for rank, sentence in sentences.items():
        assert sentence in wording[rank], wording


def test_rates_hold(target: Target) -> None:
    """Two workers at 5 Mbit/s do not beat the line-rate bound; make bench tells how near they come."""
    from inalab.hosts.switchml import wire

    elements = 60_000
    tensors = [np.ones(elements, np.float32)] * 2
    turns = all_reduce(Job(Racks(1, 2, 5.0, 5.0), settings={"slots": 64}), target, tensors, times=5)
    fastest = min(max(host[turn]["seconds"] for host in turns) for turn in range(1, 5))
    share = elements / fastest / wire.line_rate_bound(5.0, 64)
    assert share < 1.02


def test_what_is_urgent_leaves_a_host_before_what_waits(small_target: Target) -> None:
    """A link of 0.3 Mbit/s has a quarter of a second of packets to carry when the urgent one comes."""
    from inalab.hosts.drivers.sockets import BatchSocket
    from inalab.hosts.stream.datagrams import Datagrams
    from inalab.hosts.switchml.wire import packet

    job, rows = Job(Racks(1, 2, 0.3, 0.3), settings={"k": 32}), 50

    def on_host(host: HostPlan) -> list[int]:
        own, other = (job.place(host).peers[rank] for rank in (host.rank, 1 - host.rank))
        made, came = BatchSocket((own, 4000), [(other, 4000)], Datagrams(rows, packet(32)), rows), list[int]()
        made.sender.data["chunk"] = np.arange(rows)
        if host.rank == 0:
            assert made.wait(10.0)  # the other one is there
            made.send(np.arange(rows - 1))
            made.set_urgent(True)
            made.send(np.array([rows - 1]))
            return came
        for _ in range(100):
            made.send(np.array([0]))
            if made.wait(0.1):
                break
        while len(came) < rows and made.wait(5.0):
            came += made.receive().data["chunk"].tolist()
        return came

    _, came = in_network(job, small_target, lambda deployment: on_hosts(deployment.network, on_host))
    assert came.index(rows - 1) < rows - 10
    came.remove(rows - 1)
    assert came == list(range(rows - 1))


def test_all_packets_lost_ends_with_a_sentence(small_target: Target) -> None:
    job = Job(Racks(1, 2, **FAST), loss=Loss.bernoulli(1.0), settings={"slots": 4, "k": 32, "patience": 1.0})
    with pytest.raises(TrialError, match="the switch of rack 0 does not answer"):
        all_reduce(job, small_target, [np.ones(10, np.float32)] * 2)


def test_garbage_from_a_worker_changes_no_sum(small_target: Target) -> None:
    import socket

    job = Job(Racks(1, 3, **FAST), settings={"slots": 4, "k": 32})

    def on_host(host: HostPlan) -> np.ndarray:
        rng = np.random.default_rng(host.rank)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as noise:
            for size in (*range(0, 200, 7), 1400):
                noise.sendto(rng.bytes(size), (host.switch.ip, 48864))
        return job.worker(host).all_reduce(np.full(1000, host.rank, np.int32))

    def work(deployment: Deployment) -> tuple[list[np.ndarray], str]:
        sums = on_hosts(deployment.network, on_host)
        return sums, deployment.network.controls["tor0"].command("counter_read admission.rejected 3")

    sums, rejected = in_network(job, small_target, work)
    for total in sums:
        np.testing.assert_array_equal(total, 3)
    assert "packets=0," not in rejected
