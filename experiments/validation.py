"""How far the simulator can be trusted: measured sums beside simulated ones, at the points it was fitted on and at others.

Two and four workers in one rack are what the costs are fitted on (testbed.simulator.calibration). All else is held out: more
workers, other rates, pools, racks and losses; jobs that share uplinks and memory, and aggregators that do not suffice. Of schemes
that train asynchronously everything is held out, and a TAT is from when a worker has its update until it has the next model.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from pydantic import Field

from inalab.hosts.training.pipeline import ASYNCHRONOUS
from inalab.schemes import registry
from inalab.schemes.scheme import Simulation
from inalab.testbed import backends
from inalab.testbed.draw.curves import look_of, not_valid
from inalab.testbed.draw.plots import WIDTH, new_figure
from inalab.testbed.plan.arrivals import arriving
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import named_scheme
from inalab.testbed.plan.sweep import Integers, Numbers, Point, Sizes, SweepSettings, Words, paired
from inalab.testbed.record.runs import Run
from inalab.testbed.simulator import costs
from inalab.testbed.simulator.validation import compare, measured, verdicts

FITTED = (2, 4)  # workers
NAMED = 0.05  # errors, without signs, from which on the figure names the point


class Settings(SweepSettings):
    """One rack at 10 Mbit/s, where nothing else is said."""

    schemes: Words = Field(
        ("switchml", "atp", "ring", "halving-doubling", "tree", "ps", "ps-sharded", "byteps", "gloo", "async", "ssp", "mlfabric"),
        description="what is compared",
    )
    sizes: Sizes = Field((2, 4, 8, 16), description="numbers of workers")
    other_rates: Numbers = Field((2.5, 25.0), description="Mbit/s of all links, with four workers")
    pools: Integers = Field((8, 16, 128), description="slots, with four workers")
    numbers: Integers = Field((2, 4), description="of jobs that arrive as in experiment scale_jobs")
    gap: float = Field(0.2, ge=0, description="seconds between two arrivals, on average")
    memory: int = Field(128, ge=8, description="aggregators, or cells of pools, for all those jobs together")
    jobs_uplink: float = Field(100.0, gt=0, description="Mbit/s of the uplinks that they share")
    memories: Integers = Field((16, 24), description="aggregators of ATP, with four workers")
    losses: Numbers = Field((0.001, 0.01), description="loss rates of every link, with four workers")
    seeds: int = 3
    racks: int = 1
    k: int = 256
    slots: int = 32
    workload: str = "tensor-40000"
    steps: int = 6
    compute_ms: float = 40.0


QUICK: dict[str, Any] = {
    "schemes": ("switchml", "ring"), "sizes": (2, 4), "other_rates": (), "pools": (8,), "numbers": (), "memories": (), "losses": (),
    "seeds": 1, "steps": 3,
}  # fmt: skip


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Every scheme at every point that concerns it."""
    points = []
    for scheme in settings.schemes:
        at: list[tuple[str, dict[str, Any]]] = [(f"{n} workers", {"workers": n}) for n in settings.sizes]
        at += [(f"{rate:g} Mbit/s", {"workers": 4, "host_rate": rate}) for rate in settings.other_rates]
        at += [("2 racks of 4", {"racks": 2, "workers": 4})] if max(settings.sizes) > 4 else []
        how = registry.find(named_scheme(scheme)).simulated()
        if how.of_packets:
            at += [(f"{slots} slots", {"workers": 4, "slots": slots}) for slots in settings.pools]
            at += [("2 racks of 2", {"racks": 2, "workers": 2}), ("4 racks of 2", {"racks": 4, "workers": 2})]
            at += [(f"{100 * loss:g} % loss", {"workers": 4, "loss": loss}) for loss in settings.losses]
            at += [("2 jobs on 2 racks", {"racks": 2, "workers": 2, "jobs": ({}, {})})] if max(settings.sizes) > 4 else []
            for n in settings.numbers:
                jobs = arriving(scheme, n, settings.gap, 1, settings.memory, settings.slots)
                at += [(f"{n} jobs arriving", {**jobs, "uplink_rate": settings.jobs_uplink})]
        if scheme == "mlfabric":
            at += [("a delay of 4", {"workers": 8, "mlfabric.delay": 4})] if max(settings.sizes) > 4 else []
        if how is Simulation.UPDATES:
            at += [("stragglers", {"workers": 4, "straggler": "exponential"})]
            at = [(point, {"pipeline": ASYNCHRONOUS, **changes}) for point, changes in at]
        if scheme == "atp":
            at += [(f"{n} aggregators", {"workers": 4, "aggregators": n}) for n in settings.memories]
        for point, changes in at:
            fitted = set(changes) == {"workers"} and changes["workers"] in FITTED
            points.append(
                Point(f"{scheme}, {point}", {"scheme": scheme, "point": point, "fitted": fitted}, {"scheme": scheme, **changes})
            )
    return paired(points, settings, seed)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """The signed error at each point, a row for each scheme."""
    found = compare(measured(run), costs.of("embedded"))
    schemes = run.record["settings"]["schemes"]
    figure, (ax,) = new_figure(1, size=(WIDTH, 0.5 * len(schemes) + 1.2))
    for row, scheme in enumerate(schemes):
        own = [c for c in found if c.scheme == scheme]
        for c, beside in zip(own, np.linspace(-0.3, 0.3, len(own)), strict=True):
            filled = look_of(scheme).colour if not c.fitted else "white"
            ax.plot(100 * c.error, row + beside, look_of(scheme).marker, color=look_of(scheme).colour, markerfacecolor=filled)
            if abs(c.error) >= NAMED:
                ax.annotate(c.point, (100 * c.error, row + beside), xytext=(6, -2), textcoords="offset points")
    ax.axvline(0, color="black", linewidth=1)
    ax.axvspan(-10, 10, color="black", alpha=0.06)
    ax.set_yticks(range(len(schemes)), [look_of(scheme).label for scheme in schemes])
    ax.invert_yaxis()
    ax.set_xlabel("simulated TAT over measured, minus one (%)")
    caption = (
        "Signed error of the simulated median TAT at each measured point: hollow where the costs were fitted, filled where the "
        "point was held out; points that are off by 5 % or more are named. The band is the 10 % that the median of a scheme's "
        "held-out errors is to stay within."
    )
    yield "validation", caption, figure


def findings(run: Run) -> list[str]:
    """The gate's verdict for each scheme, and every pair of schemes whose winner flips."""
    if backends.of_record(run.record).computed:
        return [
            *not_valid(run),
            "The times of this run are computed themselves: they tell nothing of how far the simulator can be trusted.",
        ]
    return [*not_valid(run), *verdicts(compare(measured(run), costs.of("embedded")))]
