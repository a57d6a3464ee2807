"""Goodput against the size of BytePS's partitions and the credit; and what a large credit costs the front layer.

A partition's sum goes back once all workers have pushed it: large partitions leave links idle at the beginning and at the end of a
tensor, small ones cost messages. A credit below the bandwidth-delay product leaves links idle, too. The more is under way, the
longer the queues are in which the most urgent partition waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.schemes.scheme import Look
from inalab.testbed.draw.curves import bound_line, curve, estimate, levels, look_of, matching, near_bound, not_valid, ratio, words
from inalab.testbed.draw.plots import COLOURS, MARKERS, named, new_figure, readable
from inalab.testbed.measures import GOODPUT, PERIOD, critical_path, of_bound
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError
from inalab.testbed.plan.sweep import Numbers, Point, SweepSettings, paired
from inalab.testbed.record.runs import Run
from inalab.testbed.theory import bounds

OVERLAPPED: dict[str, Any] = {"pipeline": "cross-barrier", "host_rate": 25.0, "compute_ms": 400.0, "steps": 10}


class Settings(SweepSettings):
    """One rack of four; a tensor of which each service adds 320 kB. With layers 25 Mbit/s, as byteps_overlap has it."""

    partitions: Numbers = Field((1, 4, 16, 64), description="kB that a tensor is cut into")
    credits: Numbers = Field((16, 64, 256, 1024), description="kB under way, for each size of which so much holds one a service")
    layered_credits: Numbers = Field((16, 64, 256, 1000), description="kB under way while layers overlap, in partitions of 4 kB")
    profile: str = Field("vgg-like", description="the workload with layers")
    scheme: str = "byteps"
    racks: int = 1
    host_rate: float = 10.0
    workload: str = "tensor-320000"
    steps: int = 3
    compute_ms: float = 60.0


QUICK: dict[str, Any] = {
    "partitions": (1, 16), "credits": (64,), "layered_credits": (64, 1000), "seeds": 1, "steps": 2, "workload": "tensor-64000",
}  # fmt: skip


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Every size with every credit, and the profile with each credit.

    A worker's most urgent partitions, one a service, need no credit: a smaller one would not be kept. SettingsError where all are.
    """
    services = settings.racks * settings.workers
    if min(settings.partitions, default=0) * services > max(settings.credits, default=0):
        raise SettingsError(f"credits are less than {services} partitions, which need none: raise credits, or lower partitions")
    points = [
        Point(
            f"partitions of {size:g} kB, credit {credit:g} kB",
            {"partition": size, "credit": credit},
            {"byteps.partition": size, "byteps.credit": credit},
        )
        for size in settings.partitions
        for credit in settings.credits
        if services * size <= credit
    ]
    points += [
        Point(
            f"{settings.profile}, credit {credit:g} kB",
            {"layered_credit": credit},
            {"workload": settings.profile, "byteps.partition": 4.0, "byteps.credit": credit} | OVERLAPPED,
        )
        for credit in settings.layered_credits
    ]
    return paired(points, settings, seed)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Goodput over the size of partitions, a line a credit; a layered step over the credit."""
    figure, (whole, layered) = new_figure(2)
    for number, credit in enumerate(levels(run, "credit")):
        look = Look(f"credit {credit:g} kB", COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)])
        curve(whole, run, "partition", GOODPUT, look, credit=credit)
    sizes = levels(run, "partition")
    bound_line(whole, sizes, [32e-6 * bounds.ate(matching(run, partition=size)[0]) for size in sizes], label="optimum")
    whole.set_xlabel("size of partitions (kB)")
    whole.set_ylabel("goodput (Mbit/s of the tensor)")
    curve(layered, run, "layered_credit", PERIOD, replace(look_of("byteps"), label="by priority, partitions of 4 kB"))
    credits = levels(run, "layered_credit")
    bound_line(
        layered, credits, [critical_path(matching(run, layered_credit=credit)[0]) for credit in credits], label="critical path"
    )
    layered.set_xlabel("credit (kB)")
    layered.set_ylabel("a step (ms)")
    layered.set_title(f"{run.record['settings']['profile']}, cross-barrier")
    for ax, at in ((whole, sizes), (layered, credits)):
        ax.set_xscale("log")
        ax.set_xticks(at)
        readable(ax.xaxis)
        ax.minorticks_off()
        ax.set_ylim(0, 1.04 * ax.get_ylim()[1])
        named(figure, (ax,))
    rates = run.record["settings"]["host_rate"], OVERLAPPED["host_rate"]
    caption = (
        f"Left: goodput of an all-reduce at {rates[0]:g} Mbit/s. Right: the time from the beginning of a step to that of the next "
        f"at {rates[1]:g} Mbit/s, where communication overlaps with compute. Medians with intervals."
    )
    yield "byteps_partition", caption, figure


def findings(run: Run) -> list[str]:
    """How near the optimum each size and credit is, and what credits do to a layered step."""
    sentences = not_valid(run)
    for credit in levels(run, "credit"):
        for size in levels(run, "partition", credit=credit):
            share = estimate(run, of_bound, partition=size, credit=credit)
            sentences.append(
                f"Partitions of {size:g} kB, credit {credit:g} kB: {near_bound('byteps').words(share, 'of the optimum')}."
            )
    credits = levels(run, "layered_credit")
    for credit in credits:
        step = estimate(run, PERIOD, layered_credit=credit)
        longer = ratio(run, PERIOD, {"layered_credit": credit}, {"layered_credit": credits[0]})
        named = f"{run.record['settings']['profile']}, credit {credit:g} kB"
        wording = f", {words(longer)} times that with {credits[0]:g} kB" if credit != credits[0] else ""
        sentences.append(f"{named}: {words(step, '.0f')} ms a step{wording}.")
    return sentences
