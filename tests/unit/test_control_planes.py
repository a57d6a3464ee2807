"""What switches are told of jobs, queues and losses, where no packet shows it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from inalab.hosts.atp import wire as atp_wire
from inalab.hosts.collective import Membership, Operation
from inalab.hosts.switchml import worker
from inalab.schemes import atp as atp_scheme
from inalab.schemes import switchml as switchml_scheme
from inalab.schemes.atp import PACE
from inalab.switches import atp, switchml
from inalab.switches.commands import Commands
from inalab.switches.forwarding import Station, forwarding
from inalab.switches.loss import Loss, decisions, link_seed, mix, set_loss, threshold
from inalab.switches.sizes import MAX_JOBS, MAX_WORKERS
from inalab.switches.switchml import Child, Parent, Pool
from inalab.testbed.plan.settings import TrialSettings, make_settings
from inalab.testbed.trial.configuration import QUEUE_DEPTH, commands_for, network_commands
from inalab.topologies.jobs import deal
from inalab.topologies.plan import NetworkPlan
from inalab.topologies.racks import Racks
from tests.fabric import admitted

HERE = Station("02:00:00:00:00:01", "10.0.0.1")


def test_jobs_beyond_what_the_program_holds_are_refused() -> None:
    children = [Child(i, i, HERE) for i in range(MAX_WORKERS + 1)]
    switchml.admit(Commands(), MAX_JOBS - 1, Pool(0, 4), HERE, children[:-1], None)
    with pytest.raises(ValueError, match="33 workers below one switch: the program holds 32"):
        switchml.admit(Commands(), 0, Pool(0, 4), HERE, children, None)
    crowded, roomy = Commands(), Commands()
    for commands, below in ((crowded, children[:-1]), (roomy, children[:-2])):
        owners = [replace(child, ranks=(child.number,)) for child in below]
        switchml.admit(commands, 0, Pool(0, 4), HERE, owners, Parent(40, HERE, 0))
        assert sum("admit_worker" in line for line in commands.lines) == 32  # the parent is among those that are not crowded
    assert [any("ownership" in line for line in commands.lines) for commands in (crowded, roomy)] == [False, True]
    racks = [[[*range(32)], [32]], [[*range(31)], [31]]]
    memberships = [Membership(0, 0, sum(map(len, each)), each) for each in racks]
    assert [worker.operations_in(m) for m in memberships] == [(Operation.SUM,), worker.SwitchML.operations]
    assert worker.PARENT == switchml.PARENT
    for number in (-1, 16):
        with pytest.raises(ValueError, match=f"job {number}: the program holds jobs 0 to 15"):
            switchml.admit(Commands(), number, Pool(0, 4), HERE, children[:1], None)
        with pytest.raises(ValueError, match=f"job {number}: the program holds jobs 0 to 15"):
            atp.admit(Commands(), number, HERE, [], [])


def test_racks_have_bits_from_the_top_and_workers_from_the_bottom() -> None:
    assert [atp.rack_bit(rack) for rack in range(3)] == [1 << 31, 1 << 30, 1 << 29]
    bits = [atp.rack_bit(rack) for rack in range(MAX_WORKERS)]
    assert len(set(bits)) == 32 and all(0 < bit < 2**32 for bit in bits)


def _lines(admit: Callable[..., None], *what: Any, nodes: int) -> list[str]:
    """What admits a job at a switch that has so many multicast nodes."""
    commands = Commands(nodes)
    admit(commands, *what)
    return commands.lines


def _groups(lines: list[str], handle: int) -> dict[int, list[tuple[int, int]]]:
    """The copies of each multicast group, as (number, port); `handle` is of the first node."""
    nodes, groups = [], {}
    for line in lines:
        if made := re.fullmatch(r"mc_node_create (\d+) (\d+)", line):
            nodes.append((int(made[1]), int(made[2])))
        elif joined := re.fullmatch(r"mc_node_associate (\d+) (\d+)", line):
            groups.setdefault(int(joined[1]), []).append(nodes[int(joined[2]) - handle])
    assert sum(map(len, groups.values())) == len(nodes)
    return groups


@pytest.mark.parametrize("handle", [1, 5])
def test_atps_results_go_to_every_worker_once(handle: int) -> None:
    plan = NetworkPlan(Racks(3, 2, servers=3))
    (job,) = deal(plan, [[2, 1, 2]], [3])
    for home in range(3):  # server j is in rack j
        one = replace(job, servers=(job.servers[home],))
        at_root = _groups(_lines(atp_scheme.admit, plan, one, "root", nodes=handle), handle)
        assert [sorted(port for _, port in copies) for copies in at_root.values()] == [[r for r in range(3) if r != home]]
        for rack, here in enumerate((2, 1, 2)):
            (copies,) = _groups(_lines(atp_scheme.admit, plan, one, f"tor{rack}", nodes=handle), handle).values()
            up = [plan.port(f"tor{rack}", "root")] if rack == home else []
            workers = [plan.port(f"tor{rack}", job.hosts[rank].name) for rank in job.members(3)[rack]]
            assert sorted(port for _, port in copies) == sorted(workers + up) and len(workers) == here
            assert len({number for number, _ in copies}) == len(copies)


def test_switchmls_results_go_to_all_on_one_side_of_a_tree_once_and_none_where_there_is_no_child() -> None:
    plan = NetworkPlan(Racks(3, 2))
    (job,) = deal(plan, [[2, 0, 1]], [0])
    ports = {
        name: [sorted(port for _, port in copies) for copies in _groups(lines, 1).values()]
        for name in plan.switches
        if (lines := _lines(switchml_scheme.admit, plan, job, name, Pool(0, 4), nodes=1))
    }
    assert ports == {"tor0": [[0, 1], [0, 1, 2]], "tor2": [[0], [0, 2]], "root": [[0, 2], [2], [0]]}


def test_losses_of_a_direction_are_written_to_its_own_registers() -> None:
    loss = Loss.gilbert_elliott(0.1, 4)
    for direction, name in ((0, "loss_in"), (1, "loss_out")):
        lines = set_loss(direction, 3, loss, 77)
        written = {m[1]: int(m[2]) for line in lines if (m := re.fullmatch(rf"register_write {name}\.(\w+) 3 (\d+)", line))}
        assert len(written) == len(lines)
        assert written == {
            "seed": 77, "good": 0, "bad": 2**32 - 1, "enter": threshold(loss.enter), "leave": 2**30, "state": 0, "number": 0, "mode": 1,
        }  # fmt: skip
        assert lines[-1].endswith(".mode 3 1")  # the last, when all the rest is there


def test_every_links_losses_are_drawn_apart_at_its_upper_end() -> None:
    plan = NetworkPlan(Racks(2, 2))
    (job,) = deal(plan, [[2, 2]], [0])
    jobs = admitted("switchml", [job], slots=4, k=64)
    wording = network_commands(plan, jobs, Loss.bernoulli(0.5), 9)
    seeds = {
        (name, m[1], int(m[2])): int(m[3])
        for name, lines in wording.items()
        for line in lines
        if (m := re.fullmatch(r"register_write loss_(in|out)\.seed (\d+) (\d+)", line))
    }
    expected = {
        (link.upper, way, link.upper_port): link_seed(9, link.number, direction)
        for link in plan.links
        for direction, way in enumerate(("in", "out"))
    }
    assert seeds == expected and len(set(seeds.values())) == 2 * len(plan.links)
    assert not [line for lines in network_commands(plan, jobs, None, 9).values() for line in lines if "loss" in line]


def test_the_hash_is_murmurs_finalizer() -> None:
    assert [mix(x) for x in (0, 1, 2, 0xFFFFFFFF)] == [0, 0x514E28B7, 0x30F4C306, 0x81F16F39]
    assert decisions(Loss(good=1.0), 5, 100) == [True] * 100
    assert decisions(Loss(), 5, 100) == [False] * 100


def test_floods_and_routes() -> None:
    lines = forwarding([2, 0, 1], {"02:00:00:00:00:02": 2, "02:00:00:00:00:01": 1})
    assert lines == [
        "mc_mgrp_create 1",
        "mc_node_create 1 0 1 2",
        "mc_node_associate 1 0",
        "table_add forwarder.stations flood ff:ff:ff:ff:ff:ff => 1",
        "table_add forwarder.stations forward 02:00:00:00:00:01 => 1",
        "table_add forwarder.stations forward 02:00:00:00:00:02 => 2",
    ]


def _queue(settings: TrialSettings, name: str, word: str) -> list[str]:
    plan = settings.plan()
    return [line for line in commands_for(settings, plan, 1)[name] if line.startswith(f"set_queue_{word}")]


def test_queues_hold_all_that_can_come_unless_they_are_set() -> None:
    small = TrialSettings(racks=1, workers=2, slots=8)
    assert _queue(small, "tor0", "depth") == [f"set_queue_depth {QUEUE_DEPTH}"]
    assert _queue(small.model_copy(update={"slots": 2000}), "tor0", "depth") == ["set_queue_depth 4000"]
    assert _queue(small.model_copy(update={"slots": 400, "scheme": "atp"}), "tor0", "depth") == [
        "set_queue_depth 1600"
    ]  # each worker's
    assert _queue(small.model_copy(update={"queue": 5}), "tor0", "depth") == ["set_queue_depth 5"]
    assert _queue(small, "tor0", "delay") == []
    assert _queue(small.model_copy(update={"latency": 1.5}), "tor0", "delay") == ["set_queue_delay 1500"]


@pytest.mark.parametrize(
    ("change", "deep"),
    [
        ({"slots": 64}, 64), ({"slots": 64, "queue": 1000}, 64), ({"slots": 64, "queue": 40}, 20), ({"slots": 64, "queue": 1}, 1),
        ({"jobs": '[{"slots": 8}, {"slots": 48}]'}, 48),
    ],
)  # fmt: skip
def test_atps_switches_mark_what_one_jobs_window_cannot_be(change: dict[str, Any], deep: int) -> None:
    plain = {"racks": "1", "workers": "2", "scheme": "atp"}
    settings = make_settings(TrialSettings, plain | {key: str(value) for key, value in change.items()})
    commands = commands_for(settings, settings.plan(), 1)["tor0"]
    assert [line for line in commands if "congestion.deep" in line] == [f"register_write congestion.deep 0 {deep}"]


@pytest.mark.parametrize("others", [{"queue": "40"}, {"background": "1"}, {"workers": "2", "servers": "2", "jobs": "[{}, {}]"}])
def test_atps_switches_send_a_little_less_than_a_link_carries(others: dict[str, str]) -> None:
    alone = {"racks": "2", "workers": "1", "scheme": "atp", "host_rate": "10", "uplink_rate": "4"}
    settings = make_settings(TrialSettings, alone)
    assert _queue(settings, "tor1", "rate") == _queue(settings, "root", "rate") == []  # nobody is there to make room for
    settings = make_settings(TrialSettings, alone | others)
    packets = {rate: str(int(PACE * rate * 1e6 / atp_wire.bits_on_wire(64))) for rate in (10.0, 4.0)}
    rates = {line.split()[2]: line.split()[1] for line in _queue(settings, "tor1", "rate")}
    uplink = str(settings.plan().port("tor1", "root"))
    assert rates == {port: packets[4.0 if port == uplink else 10.0] for port in rates} and uplink in rates and len(rates) > 1
    assert _queue(settings, "root", "rate") == [f"set_queue_rate {packets[4.0]} {port}" for port in (0, 1)]
    assert _queue(settings.model_copy(update={"scheme": "switchml"}), "root", "rate") == []


@pytest.mark.parametrize("scheme", ["switchml", "atp"])
def test_all_packets_of_a_job_that_switches_aggregate_cross_its_own_spine(scheme: str) -> None:
    """Another one would not know the job, or the epoch of its group."""
    settings = TrialSettings(topology="leaf-spine", racks=3, workers=4, scheme=scheme, jobs=({"workers": [2]}, {"workers": [2]}))
    plan, jobs = settings.plan(), settings.plans(settings.plan())
    commands = commands_for(settings, plan, 1)
    for rack in plan.racks:
        for job in jobs:
            spine = plan.port(rack.name, f"spine{job.number}")
            for host in (host for host in job.everyone if host.rack != rack.rack):
                assert f"table_add forwarder.stations forward {host.station.mac} => {spine}" in commands[rack.name]


def test_ordinary_traffic_of_a_leaf_spine_network_uses_all_spines() -> None:
    settings = TrialSettings(topology="leaf-spine", racks=2, workers=4, scheme="ring")
    ports = {line.split()[-1] for line in commands_for(settings, settings.plan(), 1)["tor0"] if "forward 02:00:00:00:01" in line}
    assert ports == {"4", "5"}
