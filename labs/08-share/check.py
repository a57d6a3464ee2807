"""Lab 8: aggregators that jobs share, exactly once, and no leak."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scapy.all import ByteField, Ether, FieldListField, IntField, Packet, ShortField, SignedIntField, bind_layers

from inalab.testbed.lab.aggregation import LANES, SECRET, sum_of, vector
from inalab.testbed.lab.confinement import GIVEN
from inalab.testbed.lab.lab import Failure, Lab, Share, by_degrees
from inalab.testbed.lab.network import Link, Loss, Network, losing
from inalab.testbed.lab.summing import Tensor, check_sums, tensors
from inalab.testbed.lab.switch import StudentSwitch
from inalab.testbed.lab.workbench import Workbench

lab = Lab(
    "Share a switch",
    language="P4, Python",
    hours=8,
    files=["share.p4", "server.py"],
    given=["atp_headers.p4", "atp_wire.py", "atp_worker.py"],
)

TYPE_ATP = 0x88B8
GRADIENT, RESULT = 1, 2
EVERYBODY = "ff:ff:ff:ff:ff:ff"
LINK = Link(rate=100.0, delay=20.0)
SERVER_PORT = 31  # the first of three
AGGREGATORS = 64
MOST_PACKETS = 20_000  # several times what three jobs need at 5 % loss


class Atp(Packet):
    """Behind Ethernet."""

    name = "atp"
    fields_desc = [  # noqa: RUF012 (scapy's way)
        ByteField("kind", GRADIENT),
        ByteField("job", 1),
        ByteField("bitmap", 1),
        ByteField("resend", 0),
        ShortField("index", 0),
        IntField("chunk", 0),
        FieldListField("values", [0] * LANES, SignedIntField("value", 0), count_from=lambda packet: LANES),
    ]


bind_layers(Ether, Atp, type=TYPE_ATP)


def jobs_commands(jobs: dict[int, int]) -> list[str]:
    """Jobs and their numbers of workers; a job's multicast group has the job's number."""
    commands = []
    for node, (job, workers) in enumerate(jobs.items()):
        ports = " ".join(map(str, ports_of(job, workers)))
        commands += [f"mc_mgrp_create {job}", f"mc_node_create {job} {ports}", f"mc_node_associate {job} {node}"]
        commands.append(f"table_add jobs set_job {job} => {(1 << workers) - 1} {server_port(job)} {job}")
    return commands


def ports_of(job: int, workers: int) -> list[int]:
    """The workers' ports. Jobs 1, 2 and 3 have ports of their own; others share them."""
    return [8 * ((job - 1) % 3) + worker for worker in range(workers)]


def server_port(job: int) -> int:
    return SERVER_PORT + (job - 1) % 3


def gradient(job: int, worker: int, chunk: int, index: int, resend: int = 0) -> Packet:
    """A worker's vector of a chunk, which is vector(100 chunk + worker)."""
    made = Atp(job=job, bitmap=1 << worker, resend=resend, index=index, chunk=chunk, values=vector(100 * chunk + worker))
    return Ether(src=f"02:00:00:00:{job:02x}:0{worker}", dst=f"02:00:00:00:{job:02x}:ff") / made


class Desk:
    """The student's switch with jobs, and packets to try on it."""

    def __init__(self, bench: Workbench, jobs: dict[int, int], aggregators: int = AGGREGATORS) -> None:
        self.jobs = jobs
        defines = {} if aggregators == AGGREGATORS else {"AGGREGATORS": str(aggregators)}
        self.switch: StudentSwitch = bench.switch(jobs_commands(jobs), ports=40, defines=defines)

    def holding(self, job: int, workers: Sequence[int], chunk: int, index: int, resend: int = 0) -> Packet:
        """The packet with the sum of these workers' vectors, as the last of them brings it to the server."""
        made = gradient(job, workers[-1], chunk, index, resend)
        made[Atp].bitmap = sum(1 << worker for worker in workers)
        made[Atp].values = sum_of([vector(100 * chunk + worker) for worker in workers])
        return made

    def result(self, job: int, chunk: int, index: int) -> Packet:
        workers = range(self.jobs[job])
        made = self.holding(job, workers, chunk, index)
        made[Atp].kind = RESULT
        made[Ether].src, made[Ether].dst = f"02:00:00:00:{job:02x}:ff", EVERYBODY
        return made

    def takes(self, job: int, worker: int, chunk: int, index: int, about: str) -> None:
        """The vector must end in the switch."""
        self.switch.expect(ports_of(job, 8)[worker], gradient(job, worker, chunk, index), [], about)

    def passes(self, job: int, worker: int, chunk: int, index: int, holding: Sequence[int], about: str, resend: int = 0) -> None:
        """The vector must reach the server, with those of the workers in `holding`."""
        sent = gradient(job, worker, chunk, index, resend)
        workers = [w for w in holding if w != worker] + [worker]
        expected = [(server_port(job), self.holding(job, workers, chunk, index, resend))]
        self.switch.expect(ports_of(job, 8)[worker], sent, expected, about)

    def returns(self, job: int, chunk: int, index: int, about: str) -> None:
        """A result must leave at the job's workers' ports."""
        sent = self.result(job, chunk, index)
        sent[Atp].values = vector(31 * chunk + 5)  # the server's sum, whatever the aggregator holds
        self.switch.expect(server_port(job), sent, [(port, sent) for port in ports_of(job, self.jobs[job])], about)

    def is_free(self, index: int, about: str) -> None:
        """An aggregator must take another job's vector; it is freed again afterwards."""
        job = max(self.jobs)
        self.takes(job, 0, 999_999, index, about)
        self.passes(job, 0, 999_999, index, [0], about, resend=1)


@lab.task("vectors are added, and the complete sum goes to the server", points=10)
def adds(bench: Workbench) -> None:
    desk = Desk(bench, {1: 3, 2: 8})
    desk.takes(1, 0, 50, 4, "a vector that is not the last must end in the switch")
    for chunk, index in ((0, 5), (7, AGGREGATORS - 1), (1 << 31, 0)):
        for worker in (2, 0):
            desk.takes(1, worker, chunk, index, "a vector that is not the last must end in the switch")
        desk.passes(
            1, 1, chunk, index, [2, 0, 1], "the last vector must take the sum to the server, with all workers in its bitmap"
        )
    desk.passes(1, 1, 50, 4, [1, 0], "aggregators 4 and 5 are two", resend=1)
    Desk(bench, {3: 1}).passes(3, 0, 1, 2, [0], "a job with one worker: its vector is the sum, and must go to the server")
    for worker in range(7):
        desk.takes(2, worker, 3, 9, "a vector that is not the last must end in the switch")
    desk.passes(2, 7, 3, 9, range(8), "the last of eight vectors must take the sum to the server")


@lab.task("an aggregator that is another's is left alone", points=15)
def collides(bench: Workbench) -> None:
    desk = Desk(bench, {1: 2, 2: 2})
    desk.takes(1, 0, 4, 11, "the aggregator is free: job 1 claims it")
    desk.passes(
        2, 0, 4, 11, [0], "the aggregator is job 1's: job 2's vector must go to its server as it is, with the same chunk, too"
    )
    desk.passes(1, 0, 5, 11, [0], "the aggregator is chunk 4's: a vector of chunk 5 must go to the server as it is")
    for chunk in (4 + (1 << 8), 4 + (1 << 16), 4 + (1 << 24)):
        desk.passes(1, 0, chunk, 11, [0], f"the aggregator is chunk 4's: a vector of chunk {chunk} must go to the server as it is")
    desk.passes(1, 1, 4, 11, [0, 1], "job 1's sum must have nothing in it of what was turned away")
    desk.passes(2, 1, 4, 11, [1], "the sum is complete, but the aggregator is job 1's until the result passes")
    desk = Desk(bench, {1: 2, 17: 2})
    desk.takes(1, 0, 4, 11, "the aggregator is free: job 1 claims it")
    desk.passes(17, 0, 4, 11, [0], "the aggregator is job 1's: job 17's vector must go to its server as it is")
    desk.takes(17, 0, 4, 10, "aggregator 10 is free, whatever 11 holds")
    large = Desk(bench, {1: 2, 2: 2}, 1024)
    large.takes(1, 0, 4, 700, "there are 1024 aggregators, and number 700 is free: job 1 claims it")
    large.takes(2, 0, 4, 700 % 256, f"number {700 % 256} is free, whatever 700 holds")
    for index in (AGGREGATORS, 65535):
        about = f"there are {AGGREGATORS} aggregators: a vector that asks for number {index} must go to the server as it is"
        desk.passes(1, 0, 8, index, [0], about)
        desk.passes(1, 0, 8, index, [0], about + ", also when it is sent again", resend=1)


@lab.task("a result goes to its job's workers, and frees its own aggregator", points=15)
def result(bench: Workbench) -> None:
    desk = Desk(bench, {1: 2, 2: 3, 3: 2})
    desk.takes(1, 0, 4, 11, "the aggregator is free: job 1 claims it")
    desk.passes(1, 1, 4, 11, [0, 1], "the last vector must take the sum to the server")
    desk.returns(2, 4, 11, "a result of job 2 must reach job 2's workers; the aggregator is job 1's, and stays")
    desk.returns(1, 3, 11, "a result of chunk 3 must reach job 1's workers; the aggregator is chunk 4's, and stays")
    desk.passes(2, 0, 6, 11, [0], "results of other chunks must not free the aggregator")
    desk.returns(1, 4, 11, "the result must reach job 1's workers, and nobody else")
    desk.is_free(11, "the result has passed: the aggregator must be free")
    desk.takes(1, 1, 6, 0, "the aggregator is free: job 1 claims it")
    desk.takes(1, 1, 7, 12, "the aggregator is free: job 1 claims it")
    desk.returns(1, 7, 12, "the result of a chunk must pass as it is, also if the aggregator holds a part of its sum")
    desk.is_free(12, "the result has passed: the aggregator must be free, whatever it held")
    desk.passes(1, 0, 6, 0, [1, 0], "aggregator 0 must be as it was")
    desk.returns(1, 4, 60000, "a result whose aggregator does not exist must reach the workers all the same")
    about = "only the job's server may send results"
    desk.takes(1, 1, 8, 13, "the aggregator is free: job 1 claims it")
    for port in (ports_of(1, 2)[0], server_port(2), server_port(3)):
        desk.switch.expect(port, desk.result(1, 8, 13), [], about)
    desk.passes(1, 0, 8, 13, [1, 0], "a result that is not the server's must not free the aggregator")
    unknown = gradient(1, 0, 9, 14)
    unknown[Atp].kind = 7
    desk.switch.expect(0, unknown, [], "what is neither GRADIENT nor RESULT must be dropped")


@lab.task("a vector that is sent again takes along what is held", points=15)
def resend(bench: Workbench) -> None:
    desk = Desk(bench, {1: 4, 2: 2})
    desk.takes(1, 0, 4, 11, "the aggregator is free: job 1 claims it")
    desk.takes(1, 2, 4, 11, "a vector that is not the last must end in the switch")
    about = "worker 0 sends its vector again, which the aggregator holds: what it holds must go to the server, each vector once"
    desk.passes(1, 0, 4, 11, [0, 2], about, resend=1)
    desk.is_free(11, "what was held has gone to the server: the aggregator must be free")
    desk.passes(1, 2, 4, 11, [2], "nothing is held of this chunk: the vector must go to the server alone", resend=1)
    desk.is_free(11, "a vector that is sent again must not claim an aggregator")
    desk.takes(1, 0, 5, 11, "the aggregator is free: chunk 5 claims it")
    desk.passes(
        1, 3, 5, 11, [0, 3], "worker 3's vector was lost before: sent again, it must go to the server with what is held", resend=1
    )
    desk.takes(1, 0, 7, 11, "the aggregator is free: chunk 7 claims it")
    about = "the aggregator is chunk 7's: a vector of another chunk must go to the server alone, and leave it as it is"
    for chunk in (8, 7 + (1 << 8), 7 + (1 << 16)):
        desk.passes(1, 2, chunk, 11, [2], about, resend=1)
    for worker in (1, 2):
        desk.takes(1, worker, 7, 11, "chunk 7 is under way: a vector that is not the last must end in the switch")
    about = "worker 3 sends again, and completes the sum: it must go to the server, with all workers in its bitmap"
    desk.passes(1, 3, 7, 11, [0, 1, 2, 3], about, resend=1)
    for worker in range(3):
        desk.takes(1, worker, 9, 11, "the aggregator is free: chunk 9 claims it")
    desk.passes(1, 3, 9, 11, [0, 1, 2, 3], "the last vector must take the sum to the server")
    about = "the complete sum was lost on its way to the server: a vector that is sent again must take it there"
    desk.passes(1, 1, 9, 11, [0, 2, 3, 1], about, resend=1)
    desk.is_free(11, "the sum has gone to the server again: the aggregator must be free")
    desk.takes(2, 0, 6, 12, "the aggregator is free: job 2 claims it")
    desk.passes(1, 1, 6, 12, [1], "the aggregator is job 2's: a vector of job 1 must go to the server alone", resend=1)
    desk.passes(2, 1, 6, 12, [0, 1], "job 2's aggregator must still hold its vector")


@lab.task("a vector that comes twice is added once", points=5)
def duplicate(bench: Workbench) -> None:
    desk = Desk(bench, {1: 2})
    desk.takes(1, 0, 4, 11, "the aggregator is free: job 1 claims it")
    desk.takes(1, 0, 4, 11, "the same vector comes again, and is held already: it must be dropped")
    desk.passes(1, 1, 4, 11, [0, 1], "the vector that came twice must be in the sum once")
    desk.takes(1, 1, 4, 11, "the sum is complete, and the vector is in it: it must be dropped")


# --- the server


def packet(bitmap: int, chunk: int, resend: int, workers: int, index: int) -> bytes:
    """A packet to job 1's server with the vectors of these workers."""
    values = sum_of([large(100 * chunk + w) for w in range(workers) if bitmap >> w & 1])
    made = Atp(bitmap=bitmap, resend=resend, index=index, chunk=chunk, values=values)
    return bytes(Ether(src="02:00:00:00:01:00", dst="02:00:00:00:01:ff") / made)


def large(seed: int) -> list[int]:
    """Integers that no float32 holds, and whose sums wrap around at 32 bits."""
    draw = np.random.default_rng([SECRET, seed])
    return [int(value) | 1 for value in draw.integers(1 << 29, 1 << 31, LANES)]


Event = tuple[int, int, int]  # bitmap, chunk, resend


def answers(bench: Workbench, packets: Sequence[Event], workers: int) -> list[list[tuple[int, int, list[int]]]]:
    """What the student's server sends after each packet: chunk, index and values of each result. Packet n has index n + 7."""
    server = bench.host("Server", "the server", "server.py")
    server.start(0.0, job=1, workers=workers)
    found = []
    for number, (bitmap, chunk, again) in enumerate(packets):
        other = Atp(kind=RESULT, bitmap=1, chunk=chunk, values=large(1))
        foreign = Atp(job=2, bitmap=1, chunk=chunk, values=large(1))
        for nobodys in (other, foreign):
            server.receive(100.0 * number, bytes(Ether(src="02:00:00:00:01:00", dst="02:00:00:00:01:ff") / nobodys))
        calls = server.receive(100.0 * number, packet(bitmap, chunk, again, workers, number + 7))
        sent = [Ether(data) for kind, data in calls if kind == "send"]
        found.append([(s[Atp].chunk, s[Atp].index, list(s[Atp].values)) for s in sent if Atp in s and s[Atp].kind == RESULT])
    return found


def expect_results(bench: Workbench, packets: Sequence[Event], due: set[int], about: str, workers: int = 4) -> None:
    """After the packets whose numbers are `due` the result must be sent, once, and after no other."""
    found = answers(bench, packets, workers)
    for number, (sent, (_, chunk, _)) in enumerate(zip(found, packets, strict=True)):
        wording = ", ".join(f"{b:0{workers}b}{' resend' if again else ''}" for b, _, again in packets[: number + 1])
        if len(sent) != (number in due):
            wanted = "one result" if number in due else "no result"
            raise Failure(f"{about}: after the bitmaps {wording} {wanted} is due; the server sends {len(sent)}")
        right = sum_of([large(100 * chunk + w) for w in range(workers)])
        if sent and (sent[0][0], sent[0][2]) != (chunk, right):
            raise Failure(
                f"{about}: after the bitmaps {wording} the result is wrong", f"lane 0 must be {right[0]}, and is {sent[0][2][0]}"
            )
        named = range(7, number + 8) if number > min(due) else [number + 7]  # a result that is sent again frees nothing
        if sent and sent[0][1] not in named:
            raise Failure(
                f"{about}: the result must have the index of the packet that completed it, {number + 7}; it has {sent[0][1]}"
            )


@lab.task("the server adds every worker exactly once", points=15)
def exactly_once(bench: Workbench) -> None:
    expect_results(bench, [(0b1111, 2, 0)], {0}, "the switch has added all")
    expect_results(bench, [(0b0001, 2, 0), (0b0010, 2, 0), (0b1000, 2, 0), (0b0100, 2, 0)], {3}, "the switch has added none")
    expect_results(bench, [(0b0110, 2, 0), (0b1001, 2, 1)], {1}, "the switch has added two of each")
    about = "a packet in which one worker is in already cannot be added, as nobody can take its sum apart"
    expect_results(bench, [(0b0011, 2, 0), (0b0110, 2, 1), (0b0100, 2, 1), (0b1000, 2, 1)], {3}, about)
    expect_results(bench, [(0b0011, 2, 0), (0b0010, 2, 1), (0b1100, 2, 0)], {2}, "a vector that comes twice counts once")
    for other in (3, 2 + 64, 2 + 256, 2 + 65536, 2 + (1 << 24)):
        apart = [(0b0011, 2, 0), (0b1100, other, 0), (0b0011, other, 0), (0b1100, 2, 0)]
        expect_results(bench, apart, {2, 3}, f"chunks 2 and {other} are two")
    eight = [(1 << worker, 5, 0) for worker in range(8)]
    expect_results(bench, eight, {7}, "eight workers", workers=8)
    expect_results(bench, [(0b00111111, 5, 0), (0b01100000, 5, 1), (0b11000000, 5, 1)], {2}, "eight workers", workers=8)
    about = "the result was lost: a worker that sends again must get it, also if its packet carries others"
    expect_results(bench, [(0b1111, 2, 0), (0b0100, 2, 1), (0b0101, 2, 1), (0b1111, 2, 1)], {0, 1, 2, 3}, about)


# --- everything together


def run(
    bench: Workbench, parts: dict[int, Sequence[Tensor]], aggregators: int = AGGREGATORS, loss: Loss | None = None, window: int = 16
) -> tuple[Network, StudentSwitch]:
    """Jobs that sum tensors at the same time; every worker must have its job's sum."""
    jobs = {job: len(tensors_of) for job, tensors_of in parts.items()}
    defines = {} if aggregators == AGGREGATORS else {"AGGREGATORS": str(aggregators)}
    switch = bench.switch(jobs_commands(jobs), ports=40, defines=defines)
    network = Network(loss=loss)
    network.switches["s1"] = switch
    starts: dict[str, dict[str, Any]] = {}
    for job, tensors_of in parts.items():
        for worker, (port, part) in enumerate(zip(ports_of(job, 8), tensors_of, strict=False)):
            name = f"j{job}w{worker}"
            network.hosts[name] = bench.given_host(GIVEN / "atp_worker.py", "Worker", name)
            network.join(name, 0, "s1", port, LINK)
            starts[name] = {
                "number": worker,
                "job": job,
                "tensor": part,
                "aggregators": aggregators,
                "window": window,
                "rto": 2000.0,
            }
        server = f"j{job}server"
        network.hosts[server] = bench.host("Server", server, "server.py")
        network.join(server, 0, "s1", server_port(job), LINK)
        starts[server] = {"job": job, "workers": len(tensors_of)}
    network.run(starts, most_packets=MOST_PACKETS)
    for job, tensors_of in parts.items():
        results = {name: value for name, value in network.results.items() if name.startswith(f"j{job}w")}
        check_sums(results, tensors_of)
    return network, switch


def three_jobs(chunks: int = 60) -> dict[int, Sequence[Tensor]]:
    return {job: tensors(workers, chunks * LANES) for job, workers in ((1, 3), (2, 2), (3, 4))}


@lab.task("three jobs at once have exact sums, with and without loss", points=15)
def together(bench: Workbench) -> None:
    for aggregators, loss in ((AGGREGATORS, 0.0), (4, 0.0), (AGGREGATORS, 0.02), (4, 0.05)):
        try:
            run(bench, three_jobs(), aggregators, losing(loss, seed=3) if loss else None)
        except Failure as failure:
            raise Failure(f"{aggregators} aggregators, {loss:.0%} loss: {failure}", failure.trace) from None


@lab.task("when all jobs are done, every aggregator is free", points=5)
def no_leak(bench: Workbench) -> None:
    for loss in (0.0, 0.03):
        _, switch = run(bench, three_jobs(30), 16, losing(loss, seed=5) if loss else None)
        for index in range(16):
            sent = gradient(1, 0, 777_777, index)
            about = f"all jobs are done ({loss:.0%} loss): aggregator {index} must be free, and take a vector"
            switch.expect(ports_of(1, 1)[0], sent, [], about)


@lab.task("the switch takes the load off the servers", points=5)
def load(bench: Workbench) -> Share:
    parts = {1: tensors(4, 60 * LANES)}
    network, _ = run(bench, parts, window=8)
    packets = sum(d.packets for d in network.directions.values() if d.target == "j1server")
    share = by_degrees(packets, full=75, none=240)
    return Share(share, f"the server gets {packets} packets for 60 chunks of 4 workers; full points up to 75, none from 240 on")
