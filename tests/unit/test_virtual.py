"""Trials in virtual time: what is exact, what a fault costs, what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import TCP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapNgReader

from inalab.hosts.atp import wire
from inalab.switches.embedded.build import build
from inalab.testbed import backends
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError, TrialSettings, make_settings
from inalab.testbed.theory import bounds
from inalab.testbed.trial.capture import Capture
from inalab.testbed.trial.errors import TrialError
from inalab.testbed.virtual.frames import HEADERS
from inalab.testbed.virtual.trial import run_trial
from tests.command_line import inalab

RECORD = Path(__file__).parents[1] / "virtual.json"
SMALL: dict[str, Any] = {"workload": "tensor-6000", "steps": 4, "racks": 2, "workers": 2, "compute_ms": 10}


def settings(**changes: Any) -> TrialSettings:
    made: TrialSettings = make_settings(TrialSettings, SMALL | changes)
    return made


def virtual(seed: int = 1, heard: list[Any] | None = None, **changes: Any) -> dict[str, Any]:
    """The result of a trial."""
    chosen = settings(**changes)
    chosen.check()
    program = chosen.running().program
    return run_trial(chosen, seed, build(program, {"K": str(chosen.k)}, library=True), [].append if heard is None else heard.append)


def metrics(**changes: Any) -> dict[str, Any]:
    found = virtual(**changes)
    assert found["valid"], found["problems"]
    measured: dict[str, Any] = found["metrics"]
    return measured


OVER_TCP = ["ring", "halving-doubling", "tree", "ps", "ps-sharded", "byteps"]


@pytest.mark.parametrize("scheme", OVER_TCP)
def test_a_model_over_rdma_is_that_over_tcp_whatever_is_lost(scheme: str) -> None:
    training = {"scheme": scheme, "workload": "digits-mlp", "steps": 3, "compute_ms": 50}
    rdma = training | {"transport": "rdma"}
    faults = ({}, {"loss": 0.02}, {"loss": 0.02, "retransmission": "selective"}, {"dcqcn": False, "straggler": "slow"})
    digests = {metrics(**each)["model_digest"] for each in (training, *(rdma | fault for fault in faults))}
    assert len(digests) == 1


@pytest.mark.parametrize("scheme", OVER_TCP)
def test_over_rdma_a_sum_is_near_its_bound(scheme: str) -> None:
    chosen = {"scheme": scheme, "transport": "rdma", "workload": "tensor-60000", "steps": 2, "costs": "none"}
    found = metrics(**chosen)
    assert (
        1 <= found["tat_median"] / bounds.seconds(settings(**chosen), 60_000) <= {"tree": 1.6}.get(scheme, 1.06)
    )  # its pieces are small
    assert found["retransmissions"] == 0


@pytest.mark.parametrize("scheme", ["switchml", "atp", "esa", *OVER_TCP])
def test_a_trained_model_is_the_same_whatever_is_lost(scheme: str) -> None:
    training = {"scheme": scheme, "workload": "digits-mlp", "steps": 6, "workers": 4, "compute_ms": 50}
    lost = {"loss": 0.02, "burst": 1 if scheme in OVER_TCP else 4}  # in a burst TCP sends one packet at a time, ever more seldom
    digests = {metrics(**training, **faults)["model_digest"] for faults in ({}, lost, {"straggler": "slow"})}
    assert len(digests) == 1


def test_the_record_of_a_trial_is_that_of_every_machine() -> None:
    """Of losses, a slow worker and a timeline; to make it anew: print what `found` is here. Loss functions are the processor's."""
    found = json.loads(json.dumps(virtual(seed=7, loss=0.02, straggler="exponential", timeline=True)))
    known = json.loads(RECORD.read_text())
    losses = [[step.pop("train_loss") for step in record["steps"]] for record in (found, known)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert found == known


@pytest.mark.parametrize("scheme", ["switchml", "atp"])
@pytest.mark.parametrize("rate", [10, 100_000])
def test_without_costs_a_sum_takes_its_bound_at_any_rate(scheme: str, rate: float) -> None:
    chosen = {"scheme": scheme, "costs": "none", "host_rate": rate, "uplink_rate": rate, "workload": "tensor-60000", "steps": 2}
    found, bound = metrics(**chosen)["tat_median"], bounds.seconds(settings(**chosen), 60_000)
    assert bound <= found <= {"switchml": 1.02, "atp": 1.08}[scheme] * bound


@pytest.mark.parametrize("scheme", [*OVER_TCP, "async"])
def test_without_costs_a_sum_over_tcp_is_near_its_bound(scheme: str) -> None:
    """With acknowledgments, and what a pipeline takes to fill; a tree's are small pieces."""
    chosen = {"scheme": scheme, "costs": "none", "workload": "tensor-200000", "steps": 2}
    if scheme == "async":
        chosen |= {"pipeline": "asynchronous"}
    found, bound = virtual(**chosen), bounds.seconds(settings(**chosen), 200_000)
    took = found["metrics"]["tat_median"]
    assert found["valid"] and found["metrics"]["retransmissions"] == 0
    if scheme != "async":
        assert bound <= took <= {"tree": 1.45, "ps": 1.15}.get(scheme, 1.12) * bound


def test_a_fast_link_carries_tcp_in_its_time() -> None:
    chosen = {"scheme": "ring", "costs": "none", "host_rate": 100_000, "uplink_rate": 100_000, "workload": "tensor-2000000"}
    assert 0.9 < bounds.seconds(settings(**chosen), 2_000_000) / metrics(**chosen, steps=1)["tat_median"] <= 1


def test_a_worker_reaches_the_service_on_its_own_host_without_the_link() -> None:
    """Of two, each adds half: a worker's link carries the other half of its own tensor, and back, and the other's likewise."""
    found = metrics(scheme="byteps", costs="none", workload="tensor-40000", racks=1, steps=1)
    data = 2 * 4 * 20_000
    assert all(data < link["up"] < 1.3 * data for link in found["worker_bytes"])


def test_a_worker_alone_is_told_that_its_sums_take_no_time() -> None:
    with pytest.raises(TrialError, match="what a worker alone sums takes no time: set workers to 2 or more"):
        virtual(scheme="ring", racks=1, workers=1)


def test_a_connection_that_gives_up_ends_the_trial() -> None:
    """Also where only the other end waits for it."""
    with pytest.raises(TrialError, match=r"job 0 cannot be completed: step \d+: worker \d is gone"):
        virtual(scheme="ring", workers=4, steps=2, workload="tensor-20000", loss=0.4, costs="none", host_rate=2.0, seed=40)


def test_a_server_that_gives_up_leaves_its_workers_to_say_so() -> None:
    outage = {"patience": 1.3, "faults": "down h0 at 0.06 for 1.31"}
    with pytest.raises(TrialError, match=r"worker \d: job 0 cannot be completed: step \d+: server 0 is gone"):
        virtual(scheme="ps", racks=1, workers=2, steps=40, workload="tensor-20000", **outage)


def test_asynchronous_training_is_the_same_every_time() -> None:
    chosen = {"scheme": "mlfabric", "pipeline": "asynchronous", "workload": "digits-mlp", "steps": 6, "loss": 0.01}
    first, second = (virtual(**chosen) for _ in range(2))
    assert first == second and first["valid"] and first["metrics"]["delay_max"] > 0


def test_training_goes_on_with_the_replica_of_a_server_that_was_killed() -> None:
    chosen = {"scheme": "mlfabric", "pipeline": "asynchronous", "mlfabric.distance": 5.0, "workload": "digits-mlp", "steps": 8}
    heard: list[Any] = []
    found = virtual(heard=heard, **chosen, faults="die s0 at 0.7")
    assert found["valid"], found["problems"]
    assert found["metrics"]["faults"][0]["begun"] == pytest.approx(0.7) and found["metrics"]["single_from"] > 0.7
    assert [message.text for message in heard if type(message).__name__ == "Lost"] == ["server 0 was killed on request"]
    with pytest.raises(TrialError, match="the training ended before the fault `die s0 at 500` did"):
        virtual(**chosen, faults="die s0 at 500")


def test_latency_and_costs_lengthen_sums() -> None:
    without, late = metrics(costs="none", slots=64), metrics(costs="none", slots=64, latency=5)
    once = 3 * 0.005  # from a rack up, from the root, and down; a sum has two round trips, one of exponents
    assert without["tat_median"] + 2 * once < late["tat_median"] < without["tat_median"] + 2.5 * once
    assert metrics(costs="dpdk", slots=64)["tat_median"] > without["tat_median"]  # on the same links: emulated ones let bursts pass


def test_an_outage_is_survived_and_recorded() -> None:
    found = metrics(faults="down h0 at 0.03 for 0.04")
    (outage,) = found["faults"]
    assert [outage["begun"], outage["ended"]] == pytest.approx([0.03, 0.07]) and found["retransmissions"] > 0
    assert found["duration"] > metrics()["duration"] + 0.02
    with pytest.raises(TrialError, match="the training ended before the fault `down h0-tor0 at 5 for 1` did"):
        virtual(faults="down h0 at 5 for 1")


def test_background_traffic_takes_its_share_of_the_links() -> None:
    assert metrics(background=6.0)["tat_median"] > 1.5 * metrics()["tat_median"]


def test_jobs_share_a_network_and_atp_holds_nothing_at_the_end() -> None:
    found = virtual(scheme="atp", jobs=json.dumps([{"workers": 1}, {"workers": 1, "start": 0.01}]), aggregators=8, loss=0.01)
    assert found["valid"], found["problems"]
    assert found["metrics"]["aggregators_held"] == 0 and len(found["metrics"]["jobs"]) == 2
    assert all(of_job["model_digest"] for of_job in found["metrics"]["jobs"])


def test_jobs_under_one_scheduler_take_turns_on_uplinks() -> None:
    chosen = {"scheme": "mlfabric", "pipeline": "asynchronous", "mlfabric.shared": True, "uplink_rate": 2.0, "steps": 3}
    found = virtual(**chosen, jobs=json.dumps([{"workers": 1}, {"workers": 1, "start": 0.1}, {"workers": 1}]), workers=1, racks=2)
    assert found["valid"], found["problems"]
    assert all(of_job["model_digest"] for of_job in found["metrics"]["jobs"])
    root = {0: 0, 1: 1, 2: 0}  # the racks of the jobs' servers
    crossing: dict[int, list[tuple[float, float]]] = {0: [], 1: []}
    for r in found["steps"]:
        if (u := r["update"])["way"] == "server 0" and r["rank"] != root[r["job"]]:
            crossing[r["rank"]].append((u["sent"], u["applied"]))
    for times in crossing.values():
        times.sort()
        assert times and all(after >= end for (_, end), (after, _) in pairwise(times))


@pytest.mark.parametrize("pipeline", ["barrier", "cross-barrier"])
def test_layers_are_summed_as_the_pipeline_has_it(pipeline: str) -> None:
    found = virtual(pipeline=pipeline, workload="layers-3000+500+3000", measure_error=True)
    assert found["valid"] and all(len(step["layers"]) == 3 for step in found["steps"])
    assert max(step.get("error", 0.0) for step in found["steps"]) < 1e-6


def test_a_sum_that_cannot_be_completed_ends_the_trial_with_who_is_missing() -> None:
    with pytest.raises(
        TrialError, match=r"worker \d: job 0, slot \d+, chunk \d+ cannot be completed: nothing arrived for 0\.5 s; "
    ):
        virtual(loss=0.999, patience=0.5)
    with pytest.raises(TrialError, match=r"worker \d: job 0, chunk \d+ cannot be completed: .*server 0 has not seen worker"):
        virtual(scheme="atp", loss=0.999, patience=0.5)


def test_whoever_waits_for_a_worker_that_has_failed_ends_likewise() -> None:
    """Also outside its sums: where the error of a sum is measured, all wait for all."""
    with pytest.raises(TrialError, match=r"worker 0: job 0, slot \d+, chunk \d+ cannot be completed"):
        virtual(measure_error=True, evaluate_every=1, faults="down h0 at 0.053", patience=0.5, background=0.5)


def test_bytes_on_links_are_those_of_the_training() -> None:
    """Neither what frees aggregators at the end nor what is sent before the start is among them."""
    found = metrics(scheme="atp", costs="none")
    (server,) = found["server_bytes"]
    packet, bare = wire.packet(64).itemsize + HEADERS, wire.BARE.itemsize + HEADERS
    sums = 4 * (bare + -(-6000 // 64) * packet)
    assert server == {"up": sums, "down": sums}


def test_a_switch_has_the_ports_that_its_links_have() -> None:
    found = virtual()
    assert [len(switch["ports"]) for switch in found["switches"].values()] == [3, 3, 2]


def test_what_happens_is_told_in_its_order() -> None:
    heard: list[Any] = []
    virtual(heard=heard)
    kinds = [type(message).__name__ for message in heard]
    assert kinds[:4] == ["Hello"] * 4 and kinds.count("Step") == 16 and kinds.count("Done") == 4


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"scheme": "gloo"}, "scheme gloo does not run in virtual time"),
        ({"racks": 64, "workers": 32}, "2,048 workers in 64 racks are too many for virtual time: set at most 1,024 in 256"),
        ({"costs": "tofino"}, "costs tofino are unknown: choose one of none, dpdk, embedded"),
    ],
)
def test_what_does_not_run_is_refused_in_a_sentence(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        backends.find("virtual").refuse(settings(**changes))


def test_trials_run_in_a_process_of_their_own_and_end_with_it() -> None:
    backend, chosen = backends.find("virtual"), settings()
    backend.prepare([Trial("a", {}, chosen, 1)])
    assert backend.run(chosen, 1, lambda message: None)["metrics"] == virtual()["metrics"]
    begun = backend.start(settings(steps=10_000), 1)
    begun.kill()
    with pytest.raises(TrialError, match="was killed by SIGKILL and left no result"):
        begun.result()


@pytest.mark.parametrize("scheme", ["switchml", "ring"])
def test_captures_have_what_passes_the_upper_ends_of_links(scheme: str, tmp_path: Path) -> None:
    """Also what is lost on the way up; not what is lost on the way down."""
    backend, chosen = backends.find("virtual"), settings(scheme=scheme, loss=0.02)
    backend.prepare([Trial("a", {}, chosen, 1)])
    found = backend.run(chosen, 1, lambda message: None, Capture(["h1", "tor0-root"], tmp_path))
    assert set(found["captured"]) == {"h1-tor0", "tor0-root"} and found["metrics"] == virtual(scheme=scheme, loss=0.02)["metrics"]
    for name, counted in found["captured"].items():
        frames = list(RawPcapNgReader(str(tmp_path / f"{name}.pcapng")))
        assert counted == {"packets": len(frames), "dropped": 0} and len(frames) > 100
        times = [meta.tshigh << 32 | meta.tslow for _, meta in frames]
        assert times == sorted(times) and {meta.direction for _, meta in frames} == {1, 2}
    kind = UDP if scheme == "switchml" else TCP
    assert all(Ether(data)[kind].sport for data, _ in RawPcapNgReader(str(tmp_path / "h1-tor0.pcapng")))
    with pytest.raises(TrialError, match="cannot be written: File exists"):
        backend.run(chosen, 1, lambda message: None, Capture(["h1"], tmp_path / "h1-tor0.pcapng"))


WITHOUT_MININET = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "mininet":
            raise ModuleNotFoundError("No module named 'mininet'", name="mininet")

sys.meta_path.insert(0, Missing())
from inalab.testbed.command.cli import application
application()
"""


def test_without_mininet_trials_run_in_virtual_time(tmp_path: Path) -> None:
    words = ["run", "quickstart", "--target", "virtual", "--set", "steps=1", "--set", "workers=1", "--results", str(tmp_path)]
    done = subprocess.run([sys.executable, "-c", WITHOUT_MININET, *words], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    (record,) = tmp_path.glob("quickstart/*/run.json")
    assert json.loads(record.read_text())["versions"]["mininet"] == "not installed"


def test_equal_runs_have_equal_records_though_their_trials_end_in_any_order(tmp_path: Path) -> None:
    """Two at a time, of which the first takes longest."""
    sets = [word for text in ("sizes=4,3,2", "schemes=switchml", "seeds=1", "steps=2") for word in ("--set", text)]
    for folder in ("a", "b"):
        done = inalab("run", "workers", "--target", "virtual", *sets, "--results", str(tmp_path / folder))
        assert done.returncode == 0, done.stderr
    first, second = (path.read_bytes() for path in tmp_path.glob("*/workers/*/trials.jsonl"))
    assert first == second and first.count(b"\n") == 3


# --- a service's processor (hosts.byteps.processor)


def test_an_optimizer_at_the_services_takes_its_time_and_changes_nothing() -> None:
    its = {"scheme": "byteps", "costs": "none", "host_rate": 100.0, "byteps.partition": 1, "racks": 1, "workers": 4}
    free = metrics(**its)
    adds = metrics(**its, **{"byteps.sum_rate": 40.0})
    updates = metrics(**its, **{"byteps.sum_rate": 40.0, "byteps.update": "server", "byteps.update_rate": 4.0})
    assert free["model_digest"] == adds["model_digest"] == updates["model_digest"]
    quarter = 32e-6 * free["elements"] / 4  # Mbit that each of the four services has
    assert adds["tat_median"] == pytest.approx(4 * quarter / 40, rel=0.1) and free["tat_median"] < adds["tat_median"] / 1.5
    assert updates["tat_median"] == pytest.approx(4 * quarter / 40 + quarter / 4, rel=0.1)
    chosen = settings(**its, **{"byteps.sum_rate": 40.0, "byteps.update": "server", "byteps.update_rate": 4.0})
    assert bounds.seconds(chosen, free["elements"]) == pytest.approx(4 * quarter / 40 + quarter / 4, rel=0.02)


def test_services_of_asynchronous_training_take_their_time_too() -> None:
    """A step's change comes to services that each have as many changes before it as there are other workers."""
    its = {"scheme": "byteps", "pipeline": "asynchronous", "costs": "none", "host_rate": 100.0, "steps": 3}
    slow = {"byteps.sum_rate": 1.0, "byteps.update": "server", "byteps.update_rate": 1.0}
    free, late = metrics(**its), metrics(**its, **slow)
    assert late["duration"] > free["duration"] + 3 * 2 * 32e-6 * free["elements"] / 1.0


@pytest.mark.parametrize(
    ("changes", "wording"),
    [
        ({"byteps.update": "server"}, "byteps.update=server and byteps.update_rate belong together"),
        ({"byteps.update_rate": 3.0}, "byteps.update=server and byteps.update_rate belong together"),
        ({"byteps.update": "gpu"}, "choose one of worker, server"),
        ({"byteps.sum_rate": 0}, "greater than or equal to 0.001"),
    ],
)
def test_a_processor_that_cannot_be_is_one_sentence(changes: dict[str, Any], wording: str) -> None:
    with pytest.raises(SettingsError, match=wording):
        settings(scheme="byteps", **changes).check()
