"""`make bench`: packets per second through one switch of each target, ATE/s of real workers against the line rate, and how long
MLfabric's planner and the simulator take; and what PyTorch scripts see of it (bench_scripts.py)."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from inalab.hosts.mlfabric import planner
from inalab.hosts.mlfabric.fabric import Fabric
from inalab.hosts.mlfabric.schedule import Schedule
from inalab.hosts.mlfabric.transfers import Fetch, Pass
from inalab.hosts.switchml import wire
from inalab.schemes.switchml import SCHEME
from inalab.testbed import backends
from inalab.testbed.command import bench_scripts, bench_switches
from inalab.testbed.command.terminal import Terminal
from inalab.testbed.plan.settings import TrialSettings, make_settings
from inalab.testbed.trial.harness import Job, all_reduce, as_tensors
from inalab.topologies.racks import Racks

EVENTS = 30


def goodput(workers: int, rate: float, k: int, slots: int, elements: int) -> dict[str, float]:
    """ATE/s of real workers in one rack: the median of three all-reduces, on the slowest worker."""
    racks = Racks(1, workers, rate, rate)
    turns = all_reduce(
        Job(racks, settings={"slots": slots, "k": k}),
        backends.with_switches("embedded").program(SCHEME.program, {"K": str(k)}),
        as_tensors(racks, elements),
        times=4,
    )
    slowest = sorted(max(host[turn]["seconds"] for host in turns) for turn in range(1, 4))
    rate_had = elements / slowest[1]
    return {"ate": rate_had, "share": rate_had / wire.line_rate_bound(rate, k)}


def of_racks(hosts: int, size: int) -> Fabric:
    """Racks of so many hosts, whose uplinks carry half of what their hosts send; one host more for the server."""
    racks = [host // size for host in range(hosts + 1)]
    return Fabric(racks, [1.0] * (hosts + 1), [size / 2] * (racks[-1] + 1))


def planning(updates: int, bound: int | None, rack: int) -> float:
    """Seconds that MLfabric's planner takes for so many updates at once, the median of five plans; they are a second long each."""
    fabric = of_racks(updates, rack)
    network = planner.Network(fabric.path, fabric.rates, rack=fabric.racks.__getitem__)
    requests = [planner.Request(worker, 0, -(worker % 7), 1.0, 1.0, 0.0) for worker in range(updates)]
    took = []
    for _ in range(5):
        begun = time.monotonic()
        planner.plan(requests, updates, network, 0, bound)
        took.append(time.monotonic() - begun)
    return median(took)


def spreading(workers: int, rack: int) -> list[float]:
    """Seconds that MLfabric's scheduler takes for each of the first EVENTS transfers of a model that end, when all wait for it."""
    schedule = Schedule(of_racks(workers, rack), workers, None)
    under_way = [action for worker in range(workers) for action in schedule.fetch(worker, 1, 0, 1.0, 0.0)]
    now = 0.0
    took: list[float] = []
    while under_way and len(took) < EVENTS:
        now += 1.0
        ended, under_way = under_way, []
        for action in ended:
            assert isinstance(action, (Fetch, Pass))
            begun = time.monotonic()
            under_way += schedule.fetched(action.worker if isinstance(action, Fetch) else action.destination, 1, 1, now)
            took.append(time.monotonic() - begun)
    return took


def plans(console: Console) -> None:
    """How long MLfabric's planner takes, and its scheduler with many workers that wait for the model."""
    table = Table(title="MLfabric's planner, updates that come at once", box=SIMPLE_HEAD)
    for heading in ("updates", "hosts in a rack", "delay bound", "ms", "aim"):
        table.add_column(heading, justify="right")
    for updates, rack, bound, aim in (
        (8, 9, None, ""), (1000, 1001, None, "50"), (1000, 1001, 100, "50"), (1000, 1001, 2000, "50"),
        (1000, 32, None, "50"), (1000, 32, 100, "50"), (1000, 32, 2000, "50"),
    ):  # fmt: skip
        ms = f"{1000 * planning(updates, bound, rack):.2f}"
        table.add_row(str(updates), str(rack), "none" if bound is None else str(bound), ms, aim)
    console.print(table)
    table = Table(title="MLfabric's scheduler, workers that wait for the model", box=SIMPLE_HEAD)
    for heading in ("workers", "hosts in a rack", "ms for a transfer", "at most", "aim"):
        table.add_column(heading, justify="right")
    for workers, rack, aim in ((8, 9, ""), (1000, 1001, "50"), (1000, 32, "50")):
        took = spreading(workers, rack)
        table.add_row(str(workers), str(rack), f"{1000 * median(took):.2f}", f"{1000 * max(took):.2f}", aim)
    console.print(table)


def processing(console: Console) -> None:
    """What one core adds and updates, in Gbit/s of a tensor: experiment byteps_update has a thousandth of it."""
    import torch

    torch.set_num_threads(1)
    size = 4_000_000
    own, other = (np.random.default_rng(seed).random(size, np.float32) for seed in (1, 2))
    parameter = torch.nn.Parameter(torch.from_numpy(own.copy()))
    parameter.grad = torch.from_numpy(other)
    works: dict[str, Callable[[], Any]] = {
        "adds (NumPy)": lambda: np.add(own, other, out=own), "updates (PyTorch's Adam)": torch.optim.Adam([parameter]).step,
    }  # fmt: skip
    table = Table(title="one core, Gbit/s of a float32 tensor", box=SIMPLE_HEAD)
    for heading in works:
        table.add_column(heading, justify="right")
    table.add_row(*(f"{32e-9 * size / min(_timed(work) for _ in range(7)):.0f}" for work in works.values()))
    console.print(table)


def _timed(work: Callable[[], Any]) -> float:
    """Seconds that it takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def simulating(racks: int, workers: int, elements: int) -> tuple[int, float]:
    """Events of one sum of SwitchML that is simulated, and seconds that it takes."""
    size = {"racks": racks, "workers": workers, "k": 256, "slots": 128, "host_rate": 1e5, "uplink_rate": 1e5, "steps": 1}
    settings = make_settings(TrialSettings, size)
    plan = settings.plan()
    from inalab.testbed.simulator.plans import job_of, network_of  # whose loops take minutes to compile
    from inalab.testbed.simulator.simulation import simulate
    from inalab.testbed.simulator.steps import Steps

    network = network_of(settings, plan, 1, SCHEME.bits_on_wire(settings.k))
    (admitted,) = settings.admitted(plan)
    summing = job_of(plan, admitted, [elements], Steps(np.zeros((racks * workers, 1))))
    begun = time.perf_counter()
    return simulate(network, [summing]).events, time.perf_counter() - begun


def simulations(console: Console) -> None:
    """How fast SwitchML is simulated, on one core."""
    table = Table(title="the simulator, one sum of SwitchML without loss", box=SIMPLE_HEAD)
    for heading in ("workers", "MB", "events", "s", "aim"):
        table.add_column(heading, justify="right")
    for racks, elements, aim in ((1, 6_250_000, ""), (32, 6_250_000, "60")):
        events, took = simulating(racks, 32, elements)
        table.add_row(f"{32 * racks:,}", f"{4e-6 * elements:g}", f"{events:,}", f"{took:.1f}", aim)
    console.print(table)


def main() -> None:
    """Print all tables."""
    console = Terminal()
    plans(console)
    processing(console)
    simulations(console)
    bench_switches.switches(console)
    table = Table(title="workers, one rack, against the line-rate bound", box=SIMPLE_HEAD)
    for heading in ("workers", "Mbit/s", "k", "slots", "ATE/s", "of the bound", "aim"):
        table.add_column(heading, justify="right")
    cases: list[tuple[Any, ...]] = [
        (8, 10.0, 64, 64, 500_000, "95 %"), (8, 10.0, 256, 32, 500_000, "95 %"),
        (4, 100.0, 64, 256, 2_000_000, "80 %"), (4, 100.0, 256, 128, 3_000_000, "80 %"),
        (8, 100.0, 256, 64, 1_000_000, "95 %"), (16, 50.0, 256, 64, 1_000_000, "95 %"),
    ]  # fmt: skip
    for workers, rate, k, slots, elements, aim in cases:
        g = goodput(workers, rate, k, slots, elements)
        table.add_row(str(workers), f"{rate:g}", str(k), str(slots), f"{g['ate']:,.0f}", f"{100 * g['share']:.1f} %", aim)
    console.print(table)
    bench_scripts.sums(console)
    bench_scripts.sharded(console)
    bench_scripts.training(console)


if __name__ == "__main__":
    main()
