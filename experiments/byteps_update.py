"""Goodput against the network's rate, with the optimizer at the workers or at the servers (BytePS's CPU bottleneck).

A server's processor adds at the speed of memory. An optimizer such as Adam is slower, so that it and not the network sets the pace
on fast links. Here links and processors are a thousandth as fast as there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.schemes.byteps import SERVER, WORKERS
from inalab.testbed.draw.curves import (
    bound_line,
    curve,
    estimate,
    levels,
    look_of,
    matching,
    near_bound,
    not_valid,
    ratio,
    variant_of,
)
from inalab.testbed.draw.plots import named, new_figure
from inalab.testbed.measures import GOODPUT, of_bound
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Numbers, Point, SweepSettings, paired
from inalab.testbed.record.runs import Run
from inalab.testbed.theory import bounds

RUNS_ON = "virtual"
LOOKS = {
    WORKERS: replace(look_of("byteps"), label="optimizer at the workers"),
    SERVER: replace(variant_of(look_of("byteps"), "", 1), label="optimizer at the servers"),
}


class Settings(SweepSettings):
    """One rack of four, and as many servers, or none: then the services are on the workers' hosts."""

    rates: Numbers = Field((10.0, 20.0, 40.0, 70.0, 100.0), description="Mbit/s of the links: a thousandth of a real network's")
    spare: Numbers = Field((0, 4), description="numbers of servers beside the workers")
    adds: float = Field(200.0, ge=0.001, description="Mbit/s that a processor adds: a thousandth of a core's, by make bench")
    updates: float = Field(20.0, ge=0.001, description="Mbit/s that Adam updates, likewise")
    seeds: int = 1
    racks: int = 1
    scheme: str = "byteps"
    workload: str = "tensor-500000"
    steps: int = 3
    compute_ms: float = 60.0
    costs: str = "none"


QUICK: dict[str, Any] = {"rates": (10.0, 100.0), "spare": (4,), "steps": 2, "workload": "tensor-100000"}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Each rate, with both."""
    points = []
    for spare in map(int, settings.spare):
        for rate in settings.rates:
            for update in (WORKERS, SERVER):
                its = {"host_rate": rate, "byteps.servers": spare, "byteps.update": update, "byteps.sum_rate": settings.adds}
                its |= {"byteps.partition": 16, "byteps.credit": 512}
                its |= {"byteps.update_rate": settings.updates if update == SERVER else None}
                factors = {"rate": rate, "update": update, "spare": spare}
                points.append(Point(f"{spare} servers, {rate:g} Mbit/s, {LOOKS[update].label}", factors, its))
    return paired(points, settings, seed)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """A panel for each number of servers."""
    spares = levels(run, "spare")
    figure, axes = new_figure(max(len(spares), 1), sharey=True)
    for ax, spare in zip(axes, spares, strict=False):
        for update, look in LOOKS.items():
            curve(ax, run, "rate", GOODPUT, look, spare=spare, update=update)
            at = levels(run, "rate", spare=spare, update=update)
            heights = [32e-6 * bounds.ate(matching(run, spare=spare, update=update, rate=rate)[0]) for rate in at]
            bound_line(ax, at, heights, look, "bound of links and processors" if update == WORKERS else None)
        ax.set_title(f"{spare} servers" if spare else "services on the workers' hosts")
        ax.set_xlabel("Mbit/s of a link")
    axes[0].set_ylim(bottom=0)
    axes[0].set_ylabel("goodput (Mbit/s of the tensor)")
    named(figure, axes)
    settings = run.record["settings"]
    caption = (
        f"Goodput of an all-reduce of {settings['workers']} workers against the rate of the links. A service's processor adds "
        f"at {settings['adds']:g} Mbit/s and its optimizer updates at {settings['updates']:g} Mbit/s, a thousandth of what a core "
        "does. Dotted: what links and processors allow."
    )
    yield "byteps_update", caption, figure


def findings(run: Run) -> list[str]:
    """From which rate on the optimizer costs throughput, and how near the bounds all is."""
    sentences = not_valid(run)
    for spare in levels(run, "spare"):
        for rate in levels(run, "rate", spare=spare):
            its = {"spare": spare, "rate": rate}
            kept = ratio(run, GOODPUT, its | {"update": SERVER}, its | {"update": WORKERS})
            near = estimate(run, of_bound, **its, update=SERVER)
            if kept.n:
                where = (
                    f"{spare} servers, {rate:g} Mbit/s: {kept.median:.2f} of the goodput remains with the optimizer at the servers"
                )
                sentences.append(f"{where}, {near_bound('byteps').words(near, 'of the bound')}.")
    return sentences
