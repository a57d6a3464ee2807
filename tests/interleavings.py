"""Long runs of the random interleavings: python -m tests.interleavings [--packets N] [--seed S] [--only KIND].

What the tests of both programs try with some hundred scripts each, this tries with as many as it takes for N packets to have
passed switches: restarts in the middle, forgeries, loss, duplicates, any order, at one switch, over several, and over several
ways between racks.
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from collections.abc import Callable, Iterator

import numpy as np

from inalab.switches.embedded.offline import OfflineSwitch
from inalab.topologies.leaf_spine import ROUTINGS, LeafSpine
from inalab.topologies.racks import Racks
from inalab.topologies.topology import Topology
from tests.atp_packets import AtpJob
from tests.packets import K, TestJob
from tests.unit import test_atp_interleavings, test_atp_system, test_rdma_bag, test_switchml_bag, test_switchml_interleavings

LONGEST = 200  # steps of a script
EPOCHS = (1, 2**31 - 2, 2**32 - 3)


def one_switchml_switch(rng: random.Random) -> None:
    """A switch of level 0 or above, against the model."""
    job = TestJob(rng.randint(1, 4), test_switchml_interleavings.SLOTS, has_parent=rng.random() < 0.5)
    steps = [
        (
            rng.choice(test_switchml_interleavings.ACTIONS),
            rng.randrange(4),
            rng.randrange(test_switchml_interleavings.SLOTS),
            rng.randrange(1000),
        )
        for _ in range(rng.randrange(LONGEST))
    ]
    with test_switchml_interleavings.switch(job) as made:
        test_switchml_interleavings.play(job, made, steps, rng.choice(EPOCHS))


def one_atp_switch(rng: random.Random) -> None:
    """A switch of either level, against the model."""
    workers, level = rng.randint(1, 4), rng.randrange(2)
    jobs = [AtpJob(workers, level, test_atp_interleavings.OTHER_RACK if level else 0, number) for number in (0, 1)]
    steps = [
        test_atp_interleavings.Step(
            rng.choice(test_atp_interleavings.KINDS), rng.randrange(2), rng.randrange(4), rng.randrange(5), rng.random() < 0.5,
            rng.randrange(1000),
        )
        for _ in range(rng.randrange(LONGEST))
    ]  # fmt: skip
    with test_atp_interleavings.switch(*jobs) as made:
        test_atp_interleavings.Interleaving(jobs, made, rng.choice(EPOCHS)).play(steps)


def script(rng: random.Random, actions: list[str]) -> list[tuple[str, int]]:
    return [(rng.choice(actions), rng.randrange(1000)) for _ in range(rng.randrange(LONGEST))]


def of_racks(rng: random.Random) -> tuple[Topology, int]:
    """One rack, or up to three under one root; and jobs that share it."""
    return rng.choice([(Racks(1, 3, None, None), 1), (Racks(2, 2, None, None), 1), (Racks(3, 2, None, None), 2)])


def of_spines(rng: random.Random, servers: bool = False) -> tuple[Topology, int]:
    """Racks with several ways to each other, and jobs that share them; each may have servers of its own."""
    jobs = rng.randint(1, 2)
    racks, spines, routing = rng.randint(2, 3), rng.randint(2, 4), rng.choice(ROUTINGS)
    own = jobs * rng.randint(1, 3) if servers else 0
    return LeafSpine(racks, jobs * rng.randint(1, 2), None, None, own, spines=spines, routing=routing), jobs


def switchml(rng: random.Random, racks: Topology, jobs: int) -> None:
    """Workers and switches."""
    draw = np.random.default_rng(rng.randrange(2**32))
    values = draw.integers(-(2**31), 2**31, (3, racks.size, test_switchml_bag.CHUNKS, K), dtype=np.int64)
    net = test_switchml_bag.Bag(racks, jobs, values[0])
    try:
        test_switchml_bag.play(net, script(rng, test_switchml_bag.ACTIONS), values)
    finally:
        net.close()


def rdma(rng: random.Random, racks: Topology, jobs: int) -> None:
    """The same by RDMA, with the workers' own cores."""
    message, draw = rng.choice([1, 4]), np.random.default_rng(rng.randrange(2**32))
    groups = [test_rdma_bag.tensors(draw, racks.size, message, floats) for floats in (False, True, False)]
    net = test_rdma_bag.Bag(racks, jobs, message, groups[0])
    try:
        group = test_rdma_bag.play(net, test_rdma_bag.script(rng.randrange(2**32)), groups)
        came = test_rdma_bag.totals(net)
    finally:
        net.close()
    expected = test_rdma_bag.played(racks, jobs, message, groups[group])
    assert all(np.array_equal(a, b) for a, b in zip(came, expected, strict=True))


def atp(rng: random.Random, racks: Topology, jobs: int, scheme: str = "atp") -> None:
    """Workers, switches and servers, with sums that fit and sums that do not."""
    draw, top = np.random.default_rng(rng.randrange(2**32)), rng.choice([2**28, 2**31 - 1])
    values = draw.integers(-top, top, (3, racks.size, test_atp_system.CHUNKS, K), dtype=np.int64)
    net = test_atp_system.Bag(racks, jobs, rng.choice([1, 2, 3, 16]), lambda rank: values[0, rank], scheme)
    try:
        test_atp_system.play(net, script(rng, test_atp_system.ACTIONS), values, asking=rng.random() < 0.5)
    finally:
        net.close()


def switchml_network(rng: random.Random) -> None:
    switchml(rng, *of_racks(rng))


def switchml_spines(rng: random.Random) -> None:
    switchml(rng, *of_spines(rng))


def rdma_network(rng: random.Random) -> None:
    rdma(rng, *of_racks(rng))


def rdma_spines(rng: random.Random) -> None:
    rdma(rng, *of_spines(rng))


def atp_network(rng: random.Random) -> None:
    one, two = Racks(1, 3, None, None, servers=1), Racks(2, 2, None, None, servers=2)
    atp(rng, *rng.choice([(one, 1), (two, 1), (two, 2)]))


def atp_spines(rng: random.Random) -> None:
    atp(rng, *of_spines(rng, servers=True))


def esa_spines(rng: random.Random) -> None:
    atp(rng, *of_spines(rng, servers=True), "esa")


KINDS: tuple[Callable[[random.Random], None], ...] = (
    one_switchml_switch, one_atp_switch, switchml_network, atp_network, rdma_network, switchml_spines, atp_spines, esa_spines,
    rdma_spines,
)  # fmt: skip


def counted() -> Iterator[int]:
    """Packets that have come to switches so far; counts from the first look on."""
    seen = 0
    send = OfflineSwitch.send

    def counting(self: OfflineSwitch, port: int, data: bytes) -> list[tuple[int, bytes]]:
        nonlocal seen
        seen += 1
        return send(self, port, data)

    OfflineSwitch.send = counting  # type: ignore[method-assign]
    while True:
        yield seen


def main() -> None:
    """Try scripts of all kinds in turn; the seed of the one that fails is in its traceback's last line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--packets", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=[kind.__name__ for kind in KINDS], help="only scripts of this kind")
    options = parser.parse_args()
    begun, packets = time.monotonic(), counted()
    scripts, kinds = 0, [kind for kind in KINDS if options.only in (None, kind.__name__)]
    for scripts, kind in zip(itertools.count(1), itertools.cycle(kinds)):
        try:
            kind(random.Random(f"{options.seed}/{scripts}"))
        except AssertionError as error:
            raise SystemExit(f"{kind.__name__}, script {scripts} of seed {options.seed}: {error}") from error
        if (so_far := next(packets)) >= options.packets:
            break
    print(f"{so_far:,} packets in {scripts:,} scripts, seed {options.seed}: no difference, {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
