"""The simulator of ATP: closed forms where nothing takes time but links, and the P4 program in virtual time."""

from __future__ import annotations

import json

import numpy as np
import pytest

from inalab.switches.atp import EVENTS
from inalab.switches.loss import Loss
from inalab.testbed.plan.settings import TrialSettings, make_settings
from inalab.testbed.simulator.computed import computed_trial
from inalab.testbed.simulator.costs import Costs, Known
from inalab.testbed.simulator.plans import layers_of, network_of
from inalab.testbed.simulator.simulation import DOWN, UP, Job, Link, Network, Simulated, simulate
from inalab.testbed.simulator.steps import Steps
from inalab.testbed.theory import bounds
from inalab.testbed.trial.configuration import commands_for
from tests.replay import DELAY, replay

TIME = 1e-5  # seconds of a packet on a link
ROOT = 3  # a switch above three racks


def network(
    placed: list[list[int]], homes: list[list[int]], links: list[Link], compute: np.ndarray, chunks: int, slots: int,
    aggregators: int, loss: Loss | None = None, seed: int = 1, depth: int = 0, paced: bool = False, deep: int = 0, **own: object,
) -> tuple[Network, list[Job]]:  # fmt: skip
    """Jobs on three racks below a root: where their workers and their servers are, whose links come first."""
    hosts = sum(map(len, placed)) + sum(map(len, homes))
    paces = np.array([[link.vector / 0.98 * (n >= hosts), link.vector / 0.98] for n, link in enumerate(links)])
    jobs, first = [], 0
    for places, servers in zip(placed, homes, strict=True):
        racks = {*places, *servers}
        above = {rack: (ROOT, hosts + rack) for rack in racks} if len(racks) > 1 else {}
        own_servers = [(home, first + len(places) + i) for i, home in enumerate(servers)]
        own_links = range(first, first + len(places))
        times = compute[len(jobs)] if compute.ndim == 3 else compute
        jobs.append(
            Job(
                places, own_links, above, [chunks], slots, Steps(times[: len(places)]), servers=own_servers, aggregators=aggregators,
                **own,  # type: ignore[arg-type]
            )
        )  # fmt: skip
        first += len(places) + len(servers)
    return Network(links, 4, loss, seed, depth, paces if paced else None, deep), jobs


def one(placed: list[int], homes: list[int], chunks: int, slots: int, aggregators: int, delay: float = 0.0) -> Simulated:
    """A job alone, on links that are all alike."""
    links = [Link(TIME)] * (len(placed) + len(homes) + 3)
    return simulate(
        *network([placed], [homes], links, np.zeros((len(placed), 1)), chunks, slots, aggregators), Costs(delay=delay)
    )  # fmt: skip


@pytest.mark.parametrize("workers", [2, 4, 16])
@pytest.mark.parametrize("delay", [0.0, 1e-5])
def test_a_sum_takes_one_packet_of_each_chunk_where_all_find_aggregators(workers: int, delay: float) -> None:
    """A round trip that settles the factor, of headers; then all chunks up one after the other, and the last one's way on to the
    server, and back through the switch."""
    chunks = 2000
    ended = one([0] * workers, [0], chunks, 64, 4096, delay).jobs[0].ended
    assert ended == pytest.approx(np.full((workers, 1), 4 * delay + chunks * TIME + 3 * TIME + 4 * delay), rel=1e-9)


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_a_small_window_takes_a_round_trip_for_every_window(slots: int) -> None:
    """Little's law, behind the round trip that settles the factor."""
    delay, windows = 1e-3, 200
    trip = 4 * (TIME + delay)
    ended = one([0] * 3, [0], windows * slots, slots, 4096, delay).jobs[0].ended
    assert ended == pytest.approx(np.full((3, 1), 4 * delay + windows * trip), rel=1e-3)


def test_without_aggregators_the_servers_link_carries_all_packets() -> None:
    """One aggregator, which a chunk that nobody else sends a part of keeps: all others are added at the server."""
    workers, chunks = 5, 1000
    links = [Link(TIME)] * (workers + 2 + 1 + 1 + 3)
    compute = np.array([np.full((workers, 1), 0.1), np.array([[0.0]] + [[0.5]] * (workers - 1))])
    built, jobs = network([[0] * workers, [0, 0]], [[0], [0]], links, compute, chunks, 64, 1)
    found = simulate(built, jobs)
    assert dict(zip(EVENTS, found.happened[0, 0], strict=True))["collisions"] == workers * (chunks + 1)
    took = found.jobs[0].ended - found.jobs[0].begun
    assert took == pytest.approx(np.full((workers, 1), workers * (chunks + 1) * TIME + 3 * TIME), rel=1e-3)


def test_servers_share_what_racks_send_them() -> None:
    """With three racks a server's rack takes two sums of each chunk; with a server in each, a third of those and the rest's results."""
    chunks = 3000
    alone = one([0, 0, 1, 1, 2, 2], [0], chunks, 64, 4096).jobs[0].ended.max()
    shared = one([0, 0, 1, 1, 2, 2], [0, 1, 2], chunks, 64, 4096).jobs[0].ended.max()
    assert alone == pytest.approx(2 * chunks * TIME, rel=0.01)
    assert shared == pytest.approx((2 / 3 + 2 / 3) * chunks * TIME, rel=0.02)


def trial(**changes: object) -> TrialSettings:
    return make_settings(TrialSettings, {"scheme": "atp", "steps": 2, "compute_ms": 1, "workload": "digits-mlp"} | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"racks": 1},
        {"racks": 2},
        {"racks": 2, "uplink_rate": 3.0},
        {"racks": 3, "topology": "leaf-spine"},
        {"racks": 2, "topology": "dumbbell"},
        {"racks": 3, "servers": 3},
        {"racks": 2, "topology": "mixed-rates", "slow_share": 0.5},
    ],
)
def test_a_trial_takes_its_bound(changes: dict[str, object]) -> None:
    whole = trial(k=256, slots=128, workload="tensor-1000000", costs="none", steps=1, **changes)
    found = computed_trial(whole, 1)["metrics"]["tat_median"]
    bound = bounds.seconds(whole, 1_000_000)
    assert bound <= found <= (1.02 if "servers" in changes else 1.003) * bound


@pytest.mark.parametrize(
    ("changes", "near"),
    [
        ({"racks": 1}, 0.01),
        ({"racks": 3, "topology": "leaf-spine"}, 0.01),
        ({"racks": 2, "topology": "dumbbell"}, 0.01),
        ({"racks": 2, "slots": 8}, 0.01),
        ({"racks": 2, "servers": 2}, 0.01),
        ({"racks": 2, "aggregators": 40}, 0.06),
        ({"racks": 2, "workers": 2, "jobs": json.dumps([{}, {}])}, 0.03),  # whose switches' queues have no rates in the replay
        ({"racks": 1, "loss": 0.01, "steps": 32}, 0.04),
    ],
)
def test_the_real_workers_and_the_real_program_take_as_long_in_virtual_time(changes: dict[str, object], near: float) -> None:
    """tests.replay has them. Where packets collide or are lost the two may part at the first one that comes at another moment."""
    whole = trial(**changes)
    known = Known(Costs(delay=DELAY, naps=True), 0.0, "as in tests.replay")
    found = computed_trial(whole, 1, known)
    replayed = replay(whole, sum(n for n, _ in layers_of(whole)))
    assert found["metrics"]["tat_median"] == pytest.approx(replayed.tat, rel=near)
    if not whole.loss and "aggregators" not in changes:
        assert sum(worker["counters"]["retransmissions"] for worker in found["workers"]) == replayed.retransmissions == 0


def test_many_queries_at_once_cost_what_they_cost_in_virtual_time() -> None:
    """Four racks that lose packets ask for results of their whole racks: most of what the server's link carries is urgent."""
    whole = trial(racks=4, workers=8, loss=0.01, k=256, slots=32, workload="tensor-40000", steps=2)
    known = Known(Costs(delay=DELAY, naps=True), 0.0, "as in tests.replay")
    found, replayed = computed_trial(whole, 1, known), replay(whole, 40_000)
    duplicates = sum(worker["counters"]["duplicates"] for worker in found["workers"])
    assert replayed.duplicates > 1_000 and 0.4 < duplicates / replayed.duplicates < 2.5
    assert 0.5 < found["metrics"]["tat_median"] / replayed.tat < 2


@pytest.mark.parametrize("topology", ["racks", "leaf-spine"])
def test_switches_send_as_fast_as_their_queues_are_told(topology: str) -> None:
    """Into the links of hosts, and up to the switch where racks meet as well as down from it."""
    whole = trial(topology=topology, racks=2, workers=4, host_rate=30.0, uplink_rate=4.0, queue=64)
    plan = whole.plan()
    paces = network_of(whole, plan, 1, whole.running().schemes[0].bits_on_wire(whole.k)).paces
    assert paces is not None
    queues = {(link.number, way): 0.0 for link in plan.links for way in (UP, DOWN)}
    for name, commands in commands_for(whole, plan, 1).items():
        rates = {int(line.split()[2]): 1 / int(line.split()[1]) for line in commands if line.startswith("set_queue_rate")}
        for a in plan.switches[name].attachments:
            queues[a.link, DOWN if a.upper else UP] = rates[a.port]
    assert {(n, way): paces[n, way] for n, way in queues} == queues
    assert sum(pace == 0 for pace in queues.values()) == len(plan.everyone)


def test_events_are_counted_as_switches_count_them() -> None:
    """Each chunk claims an aggregator in its rack, is complete there, and is freed by the result; at the server's switch likewise."""
    found = computed_trial(trial(racks=2, workers=2, costs="none", k=256, workload="tensor-40000"), 1)
    chunks = 2 * (1 + -(-40000 // 256))
    for name in ("tor0", "tor1"):
        (counted,) = found["switches"][name]["jobs"]
        assert {event for event, n in counted.items() if n} == {"claims", "completions", "freed"}
        assert set(counted.values()) == {0, chunks}
