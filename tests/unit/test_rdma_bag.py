"""Workers and all switches of SwitchML by RDMA, packet by packet: sums are exact, whatever the network does and whoever starts again.

The workers are the cores that trials have, over tensors of integers and of floats. In between is a bag of packets, as in
test_switchml_bag.py.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.packet import Raw

from inalab.hosts.collective import Membership, Sum
from inalab.hosts.stream.datagrams import Datagrams
from inalab.hosts.switchml.rdma import BLOCKS, SwitchMLRdma
from inalab.schemes import registry
from inalab.testbed.plan.settings import SettingsError, TrialSettings
from inalab.topologies.jobs import JobPlan, deal
from inalab.topologies.plan import HostPlan, NetworkPlan
from inalab.topologies.racks import Racks
from inalab.topologies.topology import Topology
from tests.fabric import Fabric, admitted, disturb
from tests.packets import EPOCH, K, datagram
from tests.properties import examples
from tests.rdma_packets import program
from tests.roce import FIRST, MIDDLE, PORT, icrc, read

PAIRS, MESSAGES = 2, 5  # queue pairs, and messages of a tensor
HEADERS = 42  # bytes of Ethernet, IPv4 and UDP
MOST_TURNS = 60  # of all timers running out, without loss, after which all must be complete
LATE = 2.0  # seconds, longer than any timeout
EVER = 1e6  # that workers wait


class Worker:
    """A worker's core, and what it sums."""

    def __init__(self, net: Bag, job: JobPlan, host: HostPlan, tensor: np.ndarray) -> None:
        self.net, self.job, self.host = net, job, host
        rank, racks = job.rank(host), job.members(len(net.plan.racks))
        ends = ((host.station.ip, PORT), (host.switch.ip, PORT))
        self.core = SwitchMLRdma(Membership(job.number, rank, job.size, racks), net.epoch, PAIRS, net.message, K, ends, EVER)
        self.give(tensor)

    def give(self, tensor: np.ndarray) -> None:
        """What it sums next."""
        self.sum, self.begun = Sum(tensor, tensor.shape), False

    def begin(self) -> None:
        if not self.begun:
            self.begun = True
            self.core.start(self.sum, self.net.now)
            self._send()

    def expire(self) -> None:
        """Time passes."""
        if self.begun and self.sum.total is None:
            self.core.expired(self.net.now)
            self._send()

    def receive(self, data: bytes) -> None:
        packets = Datagrams(1, self.core.sender.record)
        begin = packets.base - int(packets.octets.ctypes.data)
        payload = data[HEADERS:]
        packets.octets[0, begin : begin + len(payload)] = np.frombuffer(payload, np.uint8)
        packets.lengths[0] = len(payload)
        self.core.received(packets, self.net.now)
        self._send()

    def _send(self) -> None:
        sends, self.core.sends = self.core.sends, []
        packets = self.core.sender
        begin = packets.base - int(packets.octets.ctypes.data)
        for row in (int(row) for send in sends for row in send.rows):
            octets = packets.octets[row, begin : begin + int(packets.lengths[row])].tobytes()
            frame = bytearray(datagram(self.host.station, self.host.switch, PORT, Raw(octets)))
            frame[18:22] = (0).to_bytes(2, "big") + (0x4000).to_bytes(2, "big")  # IP's identification, and what forbids fragments
            self.net.leave(self.host, checked(bytes(frame)))


def checked(frame: bytes) -> bytes:
    """With IP's checksum."""
    words = np.frombuffer(frame[14:24] + bytes(2) + frame[26:34], ">u2").sum(dtype=np.int64)
    total = int(words & 0xFFFF) + int(words >> 16)
    return frame[:24] + (~(total + (total >> 16)) & 0xFFFF).to_bytes(2, "big") + frame[26:]


class Bag(Fabric):
    """Hosts and switches, and the packets on their way to a port."""

    def __init__(self, racks: Topology, jobs: int, message: int, tensors: list[np.ndarray]) -> None:
        plan = NetworkPlan(racks)
        shares = deal(plan, [[racks.workers // jobs] * racks.racks] * jobs, [0] * jobs)
        of = {"slots": PAIRS * message, "message": message, "k": 64}
        super().__init__(plan, program(), admitted("switchml-rdma", shares, **of))
        self.message, self.epoch, self.now, self.delivered = message, EPOCH, 100.0, 0
        self.on_the_way: list[tuple[str, int, bytes]] = []
        self.begin(tensors)

    def begin(self, tensors: list[np.ndarray]) -> None:
        """Workers of a new group; what others have sent is still on its way."""
        self.epoch += 1
        self.workers = [Worker(self, job, host, tensors[host.rank]) for job in self.jobs for host in job.hosts]
        self.ends = {worker.host.name: worker for worker in self.workers}

    def reboot(self) -> None:
        """All switches begin again with nothing but their commands."""
        for name, made in self.switches.items():
            made.close()
            self.switches[name] = self.booted(name)

    def leave(self, host: HostPlan, data: bytes) -> None:
        name = f"tor{host.rack}"
        self.on_the_way.append((name, self.plan.port(name, host.name), data))

    def deliver(self, position: int, keep: bool = False) -> None:
        """Let one packet arrive; a duplicate of it may stay on its way."""
        self.delivered += 1
        name, port, data = self.on_the_way[position] if keep else self.on_the_way.pop(position)
        for out, copy in self.switches[name].send(port, data) if name in self.switches else ():
            peer = next(a.peer for a in self.plan.switches[name].attachments if a.port == out)
            self.on_the_way.append((peer, self.plan.port(peer, name) if peer in self.switches else 0, copy))
        if name in self.ends:
            self.ends[name].receive(data)

    def garble(self, n: int) -> None:
        """A copy of a packet on its way comes with something changed on the way, or cut short."""
        if not self.on_the_way:
            return
        rng = random.Random(n)
        name, port, data = rng.choice(self.on_the_way)
        garbled = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            garbled[rng.randrange(HEADERS, len(data))] ^= 1 << rng.randrange(8)
        del garbled[rng.choice([len(data), len(data), rng.randrange(HEADERS, len(data))]) :]
        self.on_the_way.insert(0, (name, port, bytes(garbled)))
        self.deliver(0)

    def forge(self, n: int) -> None:
        """A host sends a copy of what is on its way from somebody else, perhaps with something changed, and a good ICRC."""
        rng = random.Random(n)
        name, _, data = rng.choice(self.on_the_way)
        host = rng.choice(self.plan.hosts)
        if f"tor{host.rack}" == name and data[6:12] != bytes.fromhex(host.station.mac.replace(":", "")):
            forged = bytearray(data)
            forged[HEADERS + rng.randrange(32)] ^= 1 << rng.randrange(8)
            forged[-4:] = icrc(bytes(forged[14:])).to_bytes(4, "little")
            self.leave(host, bytes(forged))


ACTIONS = (
    ["garbage"] * 4 + ["begin"] * 2 + ["deliver"] * 2 + ["first"] * 40 + ["lose", "twice", "expire", "expire", "expire", "forge"]
)
LONGEST = 600  # steps of a script


def script(seed: int) -> list[tuple[str, int]]:
    """Mostly packets in their order; now and then all workers start again."""
    rng = random.Random(seed)
    steps = [(rng.choice(ACTIONS), rng.randrange(1000)) for _ in range(rng.randrange(LONGEST))]
    for _ in range(rng.choice([0, 0, 1, 2])):
        steps.insert(rng.randrange(len(steps) + 1), ("restart", 0))
    return steps


def tensors(rng: np.random.Generator, workers: int, message: int, floats: bool) -> list[np.ndarray]:
    size = K * message * MESSAGES - 3
    if floats:
        return [(rng.normal(size=size) * 2.0 ** rng.integers(-80, 80, size)).astype(np.float32) for _ in range(workers)]
    return list(rng.integers(-(2**31), 2**31, (workers, size), dtype=np.int64).astype(np.int32))


@pytest.mark.parametrize("message", [1, 4])
@pytest.mark.parametrize(
    ("racks", "jobs"),
    [(Racks(1, 3, None, None), 1), (Racks(2, 2, None, None), 1), (Racks(3, 2, None, None), 2)],
    ids=["one rack", "two racks", "two jobs over three racks"],
)
def test_sums_are_exact(racks: Topology, jobs: int, message: int) -> None:
    rng = np.random.default_rng(4)
    groups = [tensors(rng, racks.size, message, floats) for floats in (False, True, False)]
    undisturbed = [played(racks, jobs, message, group) for group in groups]

    @examples(15)
    @given(st.integers(0, 2**32))
    def run(seed: int) -> None:
        net = Bag(racks, jobs, message, groups[0])
        try:
            group = play(net, script(seed), groups)
            assert all(np.array_equal(a, b) for a, b in zip(undisturbed[group], totals(net), strict=True))
        finally:
            net.close()

    run()


def totals(net: Bag) -> list[Any]:
    return [worker.sum.total for worker in net.workers]


def played(racks: Topology, jobs: int, message: int, tensors: list[np.ndarray]) -> list[Any]:
    """The sums where nothing disturbs; those of integers are exact."""
    net = Bag(racks, jobs, message, tensors)
    try:
        play(net, [], [tensors])
        for worker in net.workers if tensors[0].dtype == np.int32 else ():
            exact = np.sum([tensors[host.rank] for host in worker.job.hosts], axis=0, dtype=np.int64).astype(np.int32)
            np.testing.assert_array_equal(worker.sum.total, exact)
        return totals(net)
    finally:
        net.close()


def play(net: Bag, script: list[tuple[str, int]], groups: list[list[np.ndarray]]) -> int:
    """Follow the script, then let all come to its end; the number of the group that was the last."""
    group = 0
    for action, n in script:
        worker = net.workers[n % len(net.workers)]
        if action == "restart":
            group = (group + 1) % len(groups)
            net.begin(groups[group])
        elif action == "begin":
            worker.begin()
        elif action == "garbage":
            net.garble(n)
        elif action == "expire":
            net.now += LATE
            worker.expire()
        else:
            disturb(net, action, n)
    for _ in range(MOST_TURNS):
        for worker in net.workers:
            worker.begin()
        while net.on_the_way:
            net.deliver(0)
        if all(worker.sum.total is not None for worker in net.workers):
            return group
        net.now += LATE
        for worker in net.workers:
            worker.expire()
    raise AssertionError("sums do not come to an end")


def test_a_switch_that_begins_again_is_told_where_results_go() -> None:
    rng, racks = np.random.default_rng(5), Racks(2, 2, None, None)
    first, second = tensors(rng, 4, 4, False), tensors(rng, 4, 4, False)
    net = Bag(racks, 1, 4, first)
    try:
        play(net, [], [first])
        net.reboot()
        for worker in net.workers:
            worker.give(second[worker.host.rank])
        play(net, [], [second])
        exact = np.sum(second, axis=0, dtype=np.int64).astype(np.int32)
        assert all(np.array_equal(worker.sum.total, exact) for worker in net.workers)
    finally:
        net.close()


@pytest.mark.parametrize("message", [1, 2, 4, 16])
def test_floats_are_as_exact_as_the_scheme_states(message: int) -> None:
    """Also where exponents of seven bits end: beyond 2^62 every element is the sum of the workers' floats, in their order."""
    rng, scheme = np.random.default_rng(6), registry.find("switchml-rdma")
    settings = scheme.Settings(message=message)
    block = K * message // min(message, BLOCKS)
    for power in (-140, -100, -62, -3, 0, 30, 62, 63, 100):
        given = [(2.0**power * rng.uniform(-1, 1, 2 * K * message)).astype(np.float32) for _ in range(3)]
        total = played(Racks(1, 3, None, None), 1, message, given)[0]
        if power > 62:
            assert np.array_equal(total, (given[0].astype(np.float64) + given[1] + given[2]).astype(np.float32))
            continue
        exact, magnitudes = np.sum(given, axis=0, dtype=np.float64), np.sum(np.abs(given), axis=0, dtype=np.float64)
        for first in range(0, exact.size, block):
            here = slice(first, first + block)
            largest = max(float(np.abs(one[here]).max()) for one in given)
            assert (np.abs(total[here] - exact[here]) <= scheme.sum_error(settings, 3, largest, magnitudes[here])).all()


def between(name: str, opcode: int, place: int = 0) -> Any:
    """Packets of the second queue pair on their way to a node, with this opcode: the place-th of them."""

    def is_it(one: tuple[str, int, bytes]) -> bool:
        where, _, data = one
        packet = read(data)
        second = packet.queue_pair & 0x7FF == 4 if where.startswith("tor") else packet.queue_pair == 18
        return where == name and second and packet.opcode == opcode

    return is_it, place


def taken(net: Bag, name: str, opcode: int, place: int = 0) -> tuple[str, int, bytes]:
    """One packet, taken off its way."""
    is_it, place = between(name, opcode, place)
    found = [one for one in net.on_the_way if is_it(one)][place]
    net.on_the_way.remove(found)
    return found


def wrong(net: Bag, tensors: list[np.ndarray]) -> list[int]:
    """Elements of all workers' sums that are not exact."""
    exact = np.sum(tensors, axis=0, dtype=np.int64).astype(np.int32)
    return [int((worker.sum.total != exact).sum()) for worker in net.workers]


def test_a_packet_of_an_earlier_group_does_not_pass_for_one_of_a_later() -> None:
    """Groups that follow each other at once do not use the same sequence numbers."""
    rng, racks = np.random.default_rng(7), Racks(1, 2, None, None)
    first, second = tensors(rng, 2, 4, False), tensors(rng, 2, 4, False)
    starts = []
    net = Bag(racks, 1, 4, first)
    try:
        for given in (first, second, first, second):
            starts.append(int(net.workers[0].core.rdma.endpoint.pairs[1].psn))
            net.begin(given)
        apart = [(b - a) % 2**24 for a in starts for b in starts if a != b]
        assert min(min(d, 2**24 - d) for d in apart) > 2**16
    finally:
        net.close()


def test_a_result_of_a_switch_before_its_restart_does_not_pass_for_a_later_one() -> None:
    rng, racks = np.random.default_rng(8), Racks(1, 2, None, None)
    given = tensors(rng, 2, 4, False)
    net = Bag(racks, 1, 4, given)
    try:
        for worker in net.workers:
            worker.begin()
        while any(name in net.switches for name, _, _ in net.on_the_way):
            net.deliver(next(i for i, one in enumerate(net.on_the_way) if one[0] in net.switches))
        late = [taken(net, "h0", MIDDLE) for _ in range(2)]
        first = taken(net, "h0", FIRST)
        net.on_the_way = [first]
        net.deliver(0)
        net.reboot()
        net.on_the_way = []
        for turn in range(20):
            net.now += LATE
            for worker in net.workers:
                worker.expire()
            while net.on_the_way:
                to_first = net.on_the_way[0][0] == "h0"
                net.deliver(0)
                if to_first:
                    net.ends["h0"].receive(late[turn % 2][2])
            if all(worker.sum.total is not None for worker in net.workers):
                break
        assert wrong(net, given) == [0, 0]
    finally:
        net.close()


def test_a_switch_has_queue_pairs_for_31() -> None:
    scheme = registry.find("switchml-rdma")
    for workers, fits in ((31, True), (32, False)):
        plan = NetworkPlan(Racks(1, workers))
        jobs = admitted("switchml-rdma", deal(plan, [[workers]], [0]))
        if fits:
            scheme.check(jobs, plan)
        else:
            with pytest.raises(ValueError, match="queue pairs for 31"):
                scheme.check(jobs, plan)


@pytest.mark.parametrize("change", [{"message": 4}, {"message": 1, "roce": "kernel"}])
def test_packets_have_sizes_that_infiniband_has(change: dict[str, Any]) -> None:
    with pytest.raises(
        SettingsError, match=r"^messages of several packets, and the kernel's, have packets of 256, 512, 1024 bytes"
    ):
        TrialSettings(scheme="switchml-rdma", k=32, **change).scheme_settings()
    assert TrialSettings(scheme="switchml-rdma", k=32, message=1).scheme_settings().pairs == 32
