"""ATE/s against the number of workers in one rack: in the network it does not depend on it (SwitchML's figure of 4, 8, 16).

A tensor of equal size is aggregated by 2 to 16 workers over each scheme. Dotted lines are each scheme's bound,
headers included.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.testbed.draw.curves import (
    Tolerance,
    bound_line,
    curve,
    estimate,
    levels,
    look_of,
    matching,
    near_bound,
    not_valid,
    ratio,
    words,
)
from inalab.testbed.draw.plots import named, new_figure
from inalab.testbed.measures import ATE, of_bound
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Point, Sizes, SweepSettings, Words, paired
from inalab.testbed.record.runs import Run
from inalab.testbed.theory import bounds, reported

FLAT = Tolerance(0.9, 1.1)


class Settings(SweepSettings):
    """One rack; k = 256, where a bound is a bound of bytes and hardly of headers."""

    sizes: Sizes = Field((2, 4, 8, 16), description="numbers of workers")
    schemes: Words = Field(("switchml", "ring", "gloo", "ps"), description="what is compared")
    racks: int = 1
    host_rate: float = 10.0
    k: int = 256
    slots: int = 32
    workload: str = "tensor-80000"
    steps: int = 5
    compute_ms: float = 60.0


QUICK: dict[str, Any] = {"sizes": (2, 4, 8), "schemes": ("switchml", "gloo"), "seeds": 1, "steps": 4}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Every scheme at every size."""
    points = [
        Point(f"{scheme}, {n} workers", {"scheme": scheme, "workers": n}, {"scheme": scheme, "workers": n})
        for n in settings.sizes
        for scheme in settings.schemes
    ]
    return paired(points, settings, seed)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Measured beside the paper's numbers, each with its bounds."""
    figure, (ours, paper) = new_figure(2)
    for scheme in run.record["settings"]["schemes"]:
        curve(ours, run, "workers", ATE, look_of(scheme), scheme=scheme)
        at = levels(run, "workers", scheme=scheme)
        bound_line(ours, at, [1e-6 * bounds.ate(matching(run, scheme=scheme, workers=n)[0]) for n in at], look_of(scheme))
    ours.set_title("measured here; dotted: bounds")
    ours.set_ylabel("10⁶ ATE/s")
    for (name, shown), look in zip(reported.ATE.items(), (look_of("switchml"), look_of("ring")), strict=True):
        label = f"{look.label} (reference)" if name == "switchml" else f"{name} (reference)"
        paper.plot(list(shown), list(shown.values()), marker=look.marker, linestyle="--", color=look.colour, label=label)
    paper.axhline(reported.LINK_BOUND, color="black", linestyle=":", linewidth=1.2, label="link bound (reference)")
    paper.set_title("SwitchML's repository, 100 Gbit/s,\nread by eye")
    paper.set_ylabel("10⁹ ATE/s")
    for ax, at in ((ours, levels(run, "workers")), (paper, list(reported.ATE["switchml"]))):
        ax.set_xscale("log", base=2)
        ax.set_xticks(at, [str(n) for n in at])
        ax.minorticks_off()
        ax.set_ylim(bottom=0)
        ax.set_xlabel("workers")
        named(figure, (ax,))
    rate = run.record["settings"]["host_rate"]
    caption = (
        f"Aggregated tensor elements per second against the number of workers, one rack at {rate:g} Mbit/s per link, "
        f"k = {run.record['settings']['k']}: medians with intervals, a point for each seed. Right: the "
        "reference, the benchmark picture of SwitchML's public code repository, on other hardware: compare shapes, not heights. "
        "A parameter server's workers end one after another, and the first to end begins the next tensor first; so its TAT, which "
        "begins with the last worker, can be shorter than its bound."
    )
    yield "workers", caption, figure


def findings(run: Run) -> list[str]:
    """How flat the network's aggregation is, what it gains over the others, and how near each is to its bound."""
    sentences = not_valid(run)
    if not (sizes := levels(run, "workers")):
        return sentences
    flat = ratio(run, ATE, {"scheme": "switchml", "workers": sizes[-1]}, {"scheme": "switchml", "workers": sizes[0]})
    sentences.append(f"SwitchML's ATE/s with {sizes[-1]} workers is {FLAT.words(flat, f'of that with {sizes[0]}')}.")
    for scheme in run.record["settings"]["schemes"]:
        for n in sizes:
            share = estimate(run, of_bound, scheme=scheme, workers=n)
            gain = ratio(run, ATE, {"scheme": "switchml", "workers": n}, {"scheme": scheme, "workers": n})
            wording = "" if scheme == "switchml" else f"; SwitchML has {words(gain)} times its ATE/s"
            sentences.append(
                f"{look_of(scheme).label}, {n} workers: ATE/s is {near_bound(scheme).words(share, 'of its bound')}{wording}."
            )
    return sentences
