"""Networks as planned: names, addresses, ports, where traffic goes, and what is refused."""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import suppress
from multiprocessing import Pipe
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from inalab.switches.sizes import MAX_PORTS
from inalab.topologies import isolation, links
from inalab.topologies.buckets import PHYSICAL_BYTES
from inalab.topologies.dumbbell import Dumbbell
from inalab.topologies.errors import NetworkError
from inalab.topologies.flat_machines import FlatMachines
from inalab.topologies.jobs import deal
from inalab.topologies.leaf_spine import MAX_SPINES, LeafSpine
from inalab.topologies.links import limit_rate
from inalab.topologies.mixed_rates import MixedRates
from inalab.topologies.network import MANAGEMENT_ADDRESS
from inalab.topologies.nvlink_machines import NvlinkMachines
from inalab.topologies.pcie_machines import PcieMachines
from inalab.topologies.plan import NetworkPlan
from inalab.topologies.pods import Pods
from inalab.topologies.racks import Racks
from inalab.topologies.topology import MAX_RACKS, MAX_SERVERS, Topology, TopologyError

LONGEST_NAME = 15  # of an interface, in Linux
SHAPES = [
    Racks(1, 1),
    Racks(1, 4, servers=3),
    Racks(2, 3, 10.0, 4.0),
    Racks(3, 2, 5.0, 20.0, servers=4),
    Racks(2, 32, servers=32),
    Racks(32, 2),
    LeafSpine(2, 3, servers=3),
    LeafSpine(4, 2, 10.0, 4.0, spines=3),
    LeafSpine(32, 2, spines=MAX_SPINES, servers=32),
    Dumbbell(2, 4, servers=3),
    MixedRates(2, 3, servers=1),
    Pods(5, 2, 10.0, 20.0, servers=3, pods=2, core_rate=40.0),
    Pods(32, 2, pods=16),
    FlatMachines(2, 3, servers=2),
    PcieMachines(3, 4, 10.0, 20.0, servers=3, pcie_rate=5.0),
    NvlinkMachines(2, 8, servers=2),
]


def shape(topology: Topology) -> str:
    return f"{type(topology).__name__}-{topology.racks}x{topology.workers}+{topology.servers}"


def interfaces(plan: NetworkPlan) -> list[str]:
    """All that the network makes: Mininet's, and both ends of the management links."""
    ends = [
        f"{name}-eth{port}" for link in plan.links for name, port in ((link.lower, link.lower_port), (link.upper, link.upper_port))
    ]
    return ends + [name for host in plan.everyone for name in (f"{host.name}-mgmt", f"mgmt{host.rank}")]


@pytest.mark.parametrize("racks", [*SHAPES, Racks(32, 32), Racks(31, 32, servers=32)], ids=shape)
def test_names_and_addresses_are_unique_and_fit(racks: Topology) -> None:
    plan = NetworkPlan(racks)
    names = interfaces(plan)
    assert len(set(names)) == len(names)
    assert max(map(len, names)) <= LONGEST_NAME
    assert any(len(name) >= 10 for name in names) or racks.size < 1000  # the longest are among them: h1023-mgmt
    stations = [h.station for h in plan.everyone] + [s.station for s in plan.switches.values()]
    for addresses in (
        [s.mac for s in stations],
        [s.ip for s in stations],
        [*(h.management_ip for h in plan.everyone), MANAGEMENT_ADDRESS],
    ):
        assert len(set(addresses)) == len(addresses)
    for ip in [s.ip for s in stations] + [h.management_ip for h in plan.everyone]:
        assert all(0 <= int(part) <= 255 for part in ip.split("."))
        assert not ip.endswith((".0", ".255"))
    assert all(re.fullmatch(r"02(:[0-9a-f]{2}){5}", s.mac) for s in stations)
    assert [h.rank for h in plan.everyone] == list(range(racks.size + racks.servers))
    assert [h.name for h in plan.hosts] == [f"h{r}" for r in range(racks.size)]


def test_management_addresses_across_ranks_of_250_and_254() -> None:
    plan = NetworkPlan(Racks(10, 32))
    assert [plan.hosts[r].management_ip for r in (0, 249, 250, 254, 319)] == [
        "192.168.0.2", "192.168.0.251", "192.168.1.2", "192.168.1.6", "192.168.1.71",
    ]  # fmt: skip


@pytest.mark.parametrize("racks", SHAPES, ids=shape)
def test_ports_are_one_link_each_and_as_the_program_has_them(racks: Topology) -> None:
    plan = NetworkPlan(racks)
    for name, switch in plan.switches.items():
        ports = [a.port for a in switch.attachments]
        assert len(set(ports)) == len(ports)
        assert max(ports) < MAX_PORTS
        for a in switch.attachments:
            link = plan.links[a.link]
            ends = ((link.lower, link.lower_port), (link.upper, link.upper_port))
            assert (name, a.port) == ends[1 if a.upper else 0]
            assert a.peer == ends[0 if a.upper else 1][0]
            assert plan.port(name, a.peer) == a.port
    assert [link.number for link in plan.links] == list(range(len(plan.links)))
    workers = {host.name: host.rank for host in plan.hosts}
    for link in plan.links:
        if link.lower in {switch.name for switch in plan.inner} and link.upper != "network":
            assert link.rate in [getattr(racks, name) for name in ("host_rate", "pcie_rate", "nvlink_rate") if hasattr(racks, name)]
            continue
        among_switches = link.lower in plan.switches
        rate = (
            racks.rate(workers[link.lower]) if link.lower in workers else racks.uplink_rate if among_switches else racks.server_rate
        )
        assert link.rate == (racks.core_rate if isinstance(racks, Pods) and link.upper == "core" else rate)
    assert [rack.name for rack in plan.racks] == [f"{racks.rack_name}{r}" for r in range(racks.racks)]
    assert [rack.rack for rack in plan.racks] == list(range(racks.racks))
    for root in plan.roots:
        assert [a.peer for a in root.attachments] == ([pod.name for pod in plan.pods] or plan.edges) and root.rack is None
    assert [rack for pod in plan.racks_of_pods() for rack in pod] == (list(range(racks.racks)) if plan.pods else [])
    assert len(plan.roots) == {Racks: int(racks.racks > 1), MixedRates: 1, Dumbbell: 0, Pods: 1}.get(
        type(racks), int(racks.machines) or getattr(racks, "spines", 0)
    )


@pytest.mark.parametrize("racks", SHAPES, ids=shape)
def test_ordinary_traffic_reaches_everybody(racks: Topology) -> None:
    """Each frame is followed from switch to switch by the commands that the switches take."""
    plan = NetworkPlan(racks)
    routes: dict[str, dict[str, int]] = {}
    for name in plan.switches:
        lines = plan.forwarding(name)
        found = [re.fullmatch(r"table_add forwarder\.stations forward (\S+) => (\d+)", line) for line in lines]
        routes[name] = {m[1]: int(m[2]) for m in found if m}
    ends = {h.station.mac: h.name for h in plan.everyone} | {s.station.mac: s.name for s in plan.switches.values()}
    for source in plan.everyone:
        for mac, goal in ends.items():
            if goal == source.name:
                continue
            at, hops = source.home, 0
            while at != goal:
                assert hops < 4 + 2 * bool(plan.pods) + 6 * bool(plan.inner) and at in plan.switches, (source.name, goal, at)
                port = routes[at][mac]
                at, hops = next(a.peer for a in plan.switches[at].attachments if a.port == port), hops + 1


@pytest.mark.parametrize("racks", SHAPES, ids=shape)
def test_a_broadcast_reaches_everybody_once(racks: Topology) -> None:
    """Also where there are loops, which would multiply it."""
    plan = NetworkPlan(racks)
    flood = {}
    for name in plan.switches:
        (line,) = (line for line in plan.forwarding(name) if line.startswith("mc_node_create 1 "))
        flood[name] = [int(port) for port in line.split()[2:]]
    for source in (plan.hosts[0], plan.everyone[-1]):
        reached: list[str] = []
        waiting = [(source.home, source.name)]
        while waiting:
            at, came_from = waiting.pop()
            peers = [a.peer for a in plan.switches[at].attachments if a.port in flood[at] and a.peer != came_from]
            reached += [peer for peer in peers if peer not in plan.switches]
            waiting += [(peer, at) for peer in peers if peer in plan.switches]
            assert len(reached) < len(plan.everyone)
        assert sorted(reached) == sorted(host.name for host in plan.everyone if host is not source)


def test_spines_share_the_traffic_and_the_jobs() -> None:
    plan = NetworkPlan(LeafSpine(3, 4, spines=2))
    crossed = [plan.links[plan.path(plan.hosts[0], host)[1][0]].upper for host in plan.hosts[4:]]
    assert crossed.count("spine0") == crossed.count("spine1") == 4
    assert [root.name for job in range(4) if (root := plan.root(job))] == ["spine0", "spine1", "spine0", "spine1"]
    first, second = deal(plan, [[1, 1, 0], [1, 1, 1]], [0, 0])
    assert [len(first.children(plan, name)) for name in ("tor0", "tor2", "spine0", "spine1")] == [1, 0, 2, 0]
    assert [len(second.children(plan, name)) for name in ("tor2", "spine0", "spine1")] == [1, 0, 3]


def test_the_path_of_a_message_is_the_one_that_switches_forward_on() -> None:
    for topology in SHAPES:
        plan = NetworkPlan(topology)
        for source in plan.everyone[:3]:
            for destination in (host for host in plan.everyone[-8:] if host is not source):
                links, at = plan.path(source, destination), source.name
                for number, up in links:
                    link = plan.links[number]
                    begin, end = (link.lower, link.upper) if up else (link.upper, link.lower)
                    assert begin == at
                    if at in plan.switches:
                        assert (
                            f"forward {destination.station.mac} => {plan.port(at, end)}\n" in "\n".join(plan.forwarding(at)) + "\n"
                        )
                    at = end
                assert at == destination.name


@pytest.mark.parametrize(
    ("workers", "share", "slow"), [(4, 0.1, [0]), (16, 0.1, [0, 10, 20, 30]), (2, 0.5, [0, 2]), (2, 1.0, [0, 1, 2, 3])]
)
def test_a_share_of_the_workers_is_slow(workers: int, share: float, slow: list[int]) -> None:
    plan = NetworkPlan(MixedRates(2, workers, servers=2, slow_share=share, slow_rate=2.5))
    rates = {link.lower: link.rate for link in plan.links}
    assert [host.rank for host in plan.hosts if rates[host.name] == 2.5] == slow
    assert rates["s0"] == rates["s1"] == 10.0 and {rates["tor0"], rates["tor1"]} == {10.0}


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (LeafSpine, {"racks": 1}, "joins from 2 to 32 racks"),
        (Pods, {"pods": 1}, "1 pods of 2 racks"),
        (Pods, {"pods": 3}, "3 pods of 2 racks"),
        (Pods, {"core_rate": 0.01}, "core_rate is 0.01 Mbit/s"),
        (LeafSpine, {"spines": 1}, "1 spines: from 2 to 8"),
        (LeafSpine, {"spines": MAX_SPINES + 1}, "9 spines"),
        (Dumbbell, {"racks": 3}, "a dumbbell has 2 racks, not 3"),
        (MixedRates, {"slow_share": 0.0}, "slow_share is 0: it is more than 0"),
        (MixedRates, {"slow_rate": 0.05}, "slow_rate is 0.05 Mbit/s"),
    ],
)
def test_what_a_topology_refuses(kind: type[Topology], fields: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        kind(**fields)


def test_servers_are_spread_over_the_racks() -> None:
    plan = NetworkPlan(Racks(3, 2, servers=5))
    assert [s.rack for s in plan.servers] == [0, 1, 2, 0, 1]
    assert [s.name for s in plan.servers] == ["s0", "s1", "s2", "s3", "s4"]
    assert [plan.port(f"tor{s.rack}", s.name) for s in plan.servers] == [3, 3, 3, 4, 4]
    assert [h.rack for h in plan.hosts] == [0, 0, 1, 1, 2, 2]
    assert Racks(3, 2).members == [[0, 1], [2, 3], [4, 5]] and Racks(3, 2).size == 6
    assert all(h.switch == plan.switches[f"tor{h.rack}"].station for h in plan.everyone)


@pytest.mark.parametrize(
    ("racks", "wrong", "message"),
    [
        ((MAX_RACKS, 1), (MAX_RACKS + 1, 1), "33 racks: from 1 to 32 are possible"),
        ((1, 32), (1, 33), "33 workers in a rack"),
        ((1, 1), (0, 1), "0 racks"),
        ((1, 1), (1, 0), "0 workers"),
        ((2, 1, 10, 10, MAX_SERVERS), (2, 1, 10, 10, MAX_SERVERS + 1), "33 servers: from 0 to 32"),
        ((1, 32, 10, 10, 31), (1, 32, 10, 10, 32), "65 ports, and has 64"),
        ((2, 2, 0.1), (2, 2, 0.09), "host_rate is 0.09 Mbit/s: from 0.1 to 2000000"),
        ((2, 2, 10, 2_000_000), (2, 2, 10, 2_000_001), "uplink_rate is 2000001"),
        ((2, 2, None, None), (2, 2, 10, -1), "uplink_rate is -1"),
    ],
)
def test_what_is_possible_and_what_is_just_beyond(racks: tuple[int, ...], wrong: tuple[int, ...], message: str) -> None:
    NetworkPlan(Racks(*racks))
    with pytest.raises(TopologyError, match=message):
        Racks(*wrong)


def test_a_message_crosses_its_racks_links_and_no_others() -> None:
    plan = NetworkPlan(Racks(2, 2, servers=1))
    upper = {link.lower: link.number for link in plan.links}

    def crossed(source: int, destination: int) -> list[tuple[int, bool]]:
        return plan.path(plan.everyone[source], plan.everyone[destination])

    assert crossed(0, 1) == [(upper["h0"], True), (upper["h1"], False)]
    assert crossed(0, 3) == [(upper["h0"], True), (upper["tor0"], True), (upper["tor1"], False), (upper["h3"], False)]
    assert crossed(3, 4)[-1] == (upper["s0"], False)


def test_jobs_get_hosts_of_their_own() -> None:
    plan = NetworkPlan(Racks(2, 4, servers=3))
    first, second = deal(plan, [[1, 2], [3, 1]], [1, 2])
    assert [h.name for h in first.everyone] == ["h0", "h4", "h5", "s0"]
    assert [h.name for h in second.everyone] == ["h1", "h2", "h3", "h6", "s1", "s2"]
    assert (first.number, second.number, first.size, second.size) == (0, 1, 3, 4)
    assert first.members(2) == [[0], [1, 2]] and second.members(2) == [[0, 1, 2], [3]]
    assert [second.rank(h) for h in second.everyone] == list(range(6))
    assert [len(first.children(plan, name)) for name in ("root", "tor0", "tor1")] == [2, 1, 2]
    (alone,) = deal(plan, [[0, 3]], [0])
    assert alone.children(plan, "root") == ["tor1"]
    for workers, servers in (([[3, 1], [2, 1]], [0, 0]), ([[1, 1]], [4])):
        with pytest.raises(TopologyError, match=f"job {len(workers) - 1} needs more hosts than the network has left"):
            deal(plan, workers, servers)


class Shaped:
    """A node whose `tc` reports what the test says."""

    name = "h0"

    def __init__(self, shown: str = "", error: str = "") -> None:
        self.shown, self.error, self.commands, self.returncode = shown, error, list[str](), 1 if error else 0

    def popen(self, words: list[str], **pipes: Any) -> Shaped:
        assert words == ["tc", "-batch", "-"]
        return self

    def communicate(self, commands: str) -> tuple[str, str]:
        self.commands += commands.splitlines()
        return self.shown, self.error


@pytest.mark.parametrize(
    ("rate", "reported", "good"),
    [(10.0, "10Mbit", True), (1.5, "1500Kbit", True), (2.0, "2000000bit", True), (1000.0, "1Gbit", True), (10.0, "10Kbit", False), (10.0, "9Mbit", False)],
)  # fmt: skip
def test_a_rate_is_read_back(rate: float, reported: str, good: bool) -> None:
    node = Shaped(f"class htb 1:1 root prio 0 rate {reported} ceil {reported} burst 1600b")
    if good:
        limit_rate(node, "h0-eth0", rate)
    else:
        with pytest.raises(NetworkError, match=f"a rate of {rate} Mbit/s was requested, and tc reports class htb"):
            limit_rate(node, "h0-eth0", rate)
    assert f"rate {int(rate * 1e6)}bit" in node.commands[1] and f"overhead {PHYSICAL_BYTES} " in node.commands[1]
    burst = int(re.findall(r" burst (\d+)", node.commands[1])[0])
    assert burst == max(1600, int(rate * 1e6 / 8 / 1000))


def test_a_rate_that_is_not_there_or_a_command_that_fails_is_an_error() -> None:
    with pytest.raises(NetworkError, match="tc reports none"):
        limit_rate(Shaped(), "h0-eth0", 10.0)
    sentences = "RTNETLINK answers: File exists\nCommand failed -:2\n"
    with pytest.raises(NetworkError, match=r"h0: `tc class add dev h0-eth0 .*` failed: RTNETLINK answers: File exists$"):
        limit_rate(Shaped(error=sentences), "h0-eth0", 10.0)
    with pytest.raises(NetworkError, match="h0: `ethtool -K` failed: no such thing"):
        links.run(SimpleNamespace(name="h0", pexec=lambda command: ("", "no such thing", 2)), "ethtool -K")


def test_both_ends_of_a_link_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    limited: list[tuple[str, float]] = []
    nodes = [SimpleNamespace(name=name) for name in ("h0", "tor0")]

    def make(self: links.RateLink, node1: object, node2: object, **_: object) -> None:
        made = (
            {"node": n, "name": f"{n.name}-eth0", "turn_off": lambda *_: None, "send_segments_singly": lambda: None} for n in nodes
        )
        self.intf1, self.intf2 = (SimpleNamespace(**each) for each in made)

    monkeypatch.setattr(links.Link, "__init__", make)
    monkeypatch.setattr(links, "limit_rate", lambda node, name, rate: limited.append((name, rate)))
    links.RateLink(*nodes, rate=5.0)
    assert limited == [("h0-eth0", 5.0), ("tor0-eth0", 5.0)]
    limited.clear()
    links.RateLink(*nodes)
    assert limited == []


def test_a_forked_piece_of_work_ends_with_its_code() -> None:
    assert isolation.wait(isolation.fork(lambda: 7)) == 7
    assert isolation.wait(isolation.fork(lambda: os.kill(os.getpid(), 9) or 0)) == -9

    def fails() -> int:
        raise ValueError("on purpose")

    assert isolation.wait(isolation.fork(fails)) == 1
    assert isolation._exit_code(9) == 128 + 9


def test_a_forked_process_ends_with_the_one_that_made_it() -> None:
    receiver, sender = Pipe(duplex=False)

    def sleeping() -> int:
        sender.send(os.getpid())  # from here on only the kernel ends it: it has looked whether its parent had died before
        time.sleep(60)
        return 0

    def parent() -> int:
        isolation.fork(sleeping)
        time.sleep(60)
        return 0

    pid = isolation.fork(parent)
    child = receiver.recv()
    os.kill(pid, signal.SIGKILL)
    assert isolation.wait(pid) == -signal.SIGKILL
    end = time.monotonic() + 10
    try:
        while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < end, "the child is alive"
            time.sleep(0.01)
    except psutil.NoSuchProcess:
        pass
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


class Crooked(Topology):
    """Built in one of three wrong ways."""

    how = "unlinked"

    def build(self, net: NetworkPlan) -> None:
        racks = net.add_racks()
        roots = {"unlinked": ["a", "b"], "rootless": [], "crowded": ["a", "b"]}[self.how]
        for name in roots:
            root = net.add_root(name)
            for rack in racks[: 1 if self.how == "unlinked" else None]:
                net.add_link(rack, root, 10.0)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("unlinked", "does not link each rack to a once"),
        ("rootless", "has 3 racks and no root: more than two racks need one"),
        ("crowded", "uses a port of tor0 twice: its uplinks are 1"),
    ],
)
def test_what_a_build_makes_is_checked(how: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Crooked, "how", how)
    with pytest.raises(TopologyError, match=message):
        NetworkPlan(Crooked(3, 2, servers=3 if how == "crowded" else 0))
