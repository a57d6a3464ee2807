"""Goodput against the number of spare hosts with a Summation Service (BytePS's main figure), and the price of assigning by hash.

The optimum with n workers and k spare hosts takes 2n(n-1) M / (D rate), D = n² + kn - 2k. Without spare hosts that is a
ring's time; with as many as there are workers, that of dedicated servers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.hosts.byteps.assignment import BY_BYTES, BY_HASH
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
    words,
)
from inalab.testbed.draw.plots import named, new_figure
from inalab.testbed.measures import GOODPUT, of_bound
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError
from inalab.testbed.plan.sweep import Integers, Point, Sizes, SweepSettings, Words, paired
from inalab.testbed.record.runs import Run
from inalab.testbed.theory import bounds

LOOKS = {BY_BYTES: look_of("byteps"), BY_HASH: variant_of(look_of("byteps"), "BytePS, by hash")}
BESIDE = {"ring": {}, "ps": {"ps.servers": 1}, "switchml": {}}


class Settings(SweepSettings):
    """One rack; a tensor of 2 MB."""

    sizes: Sizes = Field((4, 8), description="numbers of workers")
    spare: Integers = Field((), description="numbers of spare hosts; default: none to as many as there are workers")
    assignments: Words = Field((BY_BYTES, BY_HASH), description="how partitions are assigned")
    credit: float = Field(256.0, ge=1, le=1_000_000, description="kB under way: more than usual, for many services")
    racks: int = 1
    host_rate: float = 10.0
    k: int = 256
    slots: int = 32
    workload: str = "tensor-500000"
    steps: int = 3
    compute_ms: float = 60.0


QUICK: dict[str, Any] = {"sizes": (4,), "spare": (0, 4), "seeds": 1, "steps": 2, "workload": "tensor-100000"}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Every number of spare hosts with each assignment; beside them other schemes. SettingsError for too many spare hosts."""
    points = []
    for n in settings.sizes:
        if settings.spare and max(settings.spare) > n:
            raise SettingsError(f"spare has {max(settings.spare)}: {n} workers cannot use more than {n} spare hosts")
        for k in settings.spare or range(n + 1):
            points += [
                Point(
                    f"{n} workers, {k} spare, {assignment}",
                    {"scheme": "byteps", "workers": n, "spare": k, "assignment": assignment},
                    {"scheme": "byteps", "workers": n, "byteps.servers": k, "byteps.assignment": assignment}
                    | {"byteps.credit": settings.credit},
                )
                for assignment in settings.assignments
            ]  # fmt: skip
        points += [
            Point(f"{n} workers, {scheme}", {"scheme": scheme, "workers": n}, {"scheme": scheme, "workers": n} | own)
            for scheme, own in BESIDE.items()
        ]
    return paired(points, settings, seed)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Goodput against k, a panel for each number of workers."""
    sizes = levels(run, "workers")
    figure, axes = new_figure(max(len(sizes), 1), sharey=True)
    for ax, n in zip(axes, sizes, strict=False):
        for assignment in run.record["settings"]["assignments"]:
            curve(ax, run, "spare", GOODPUT, LOOKS[assignment], scheme="byteps", workers=n, assignment=assignment)
        at = levels(run, "spare", workers=n)
        optimum = [32e-6 * bounds.ate(matching(run, scheme="byteps", workers=n, spare=k)[0]) for k in at]
        bound_line(ax, at, optimum, look_of("byteps"), "optimum")
        for scheme in BESIDE:
            found, look = estimate(run, GOODPUT, scheme=scheme, workers=n), look_of(scheme)
            if found.n:
                ax.axhline(found.median, color=look.colour, linestyle="--", linewidth=1.2, label=look.label)
        ax.set_title(f"{n} workers")
        ax.set_xlabel("spare hosts with a Summation Service")
        ax.set_xticks(at)
        ax.set_ylim(bottom=0)
    axes[0].set_ylabel("goodput (Mbit/s of the tensor)")
    named(figure, axes)
    caption = (
        f"Goodput of an all-reduce against the number of spare hosts, at {run.record['settings']['host_rate']:g} Mbit/s: medians "
        "with intervals, a point for each seed. Dotted: the optimum, headers counted. Dashed: other schemes; "
        "only the parameter server uses a spare host."
    )
    yield "byteps_spare", caption, figure


def findings(run: Run) -> list[str]:
    """How near the optimum each point is, what the hash costs, and what spare hosts gain over a ring."""
    sentences = not_valid(run)
    for n in levels(run, "workers"):
        here: dict[str, Any] = {"scheme": "byteps", "workers": n}
        for k in levels(run, "spare", workers=n):
            share = estimate(run, of_bound, **here, spare=k, assignment=BY_BYTES)
            price = ratio(run, GOODPUT, here | {"spare": k, "assignment": BY_BYTES}, here | {"spare": k, "assignment": BY_HASH})
            hashed = f"; assignment by bytes has {words(price)} times the goodput of assignment by hash" if price.n else ""
            sentences.append(f"{n} workers, {k} spare: {near_bound('byteps').words(share, 'of the optimum')}{hashed}.")
        most = here | {"spare": max(levels(run, "spare", workers=n), default=0), "assignment": BY_BYTES}
        for scheme in BESIDE:
            gain = ratio(run, GOODPUT, most, {"scheme": scheme, "workers": n})
            sentences.append(f"{n} workers, {most['spare']} spare: {words(gain)} times the goodput of {look_of(scheme).label}.")
    return sentences
