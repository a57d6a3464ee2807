"""Throughput where racks have several ways to each other: one way for each destination, one for each flow (ECMP), or all in turn.

With a skew, the links of each further spine take longer, so that packets which take turns come out of order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.testbed.draw.curves import bar, estimate, levels, look_of, matching, not_valid, values, words
from inalab.testbed.draw.plots import named, new_figure
from inalab.testbed.measures import metric
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Numbers, Point, SweepSettings, Words, paired
from inalab.testbed.record.runs import Run
from inalab.testbed.theory import bounds
from inalab.topologies.leaf_spine import ROUTINGS, TREE

RUNS_ON = "virtual"
KILO = metric("ate_per_second", 1e-3)
NAMES = {"tree": "one for each\ndestination", "ecmp": "one for each\nflow (ECMP)", "spray": "in turn,\npacket by packet"}


class Settings(SweepSettings):
    """Four racks of four below four spines, whose links are as fast as the hosts': racks can send as much as their hosts."""

    schemes: Words = Field(("switchml", "atp", "byteps", "ring"), description="what is compared")
    skews: Numbers = Field((0.0, 1.0), description="ms that the links of a spine take longer than those of the spine before it")
    seeds: int = 1
    topology: str = "leaf-spine"
    racks: int = 4
    spines: int = 4
    workload: str = "tensor-100000"
    steps: int = 4
    compute_ms: float = 60.0
    costs: str = "none"


QUICK: dict[str, Any] = {"schemes": ("switchml", "atp", "ring"), "racks": 2, "workers": 2, "steps": 2, "workload": "tensor-20000"}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Each scheme with each routing, at each skew."""
    points = [
        Point(
            f"{scheme}, {routing}, {skew:g} ms",
            {"scheme": scheme, "routing": routing, "skew": skew},
            {"scheme": scheme, "routing": routing, "skew": skew},
        )
        for skew in settings.skews
        for scheme in settings.schemes
        for routing in ROUTINGS
    ]
    return paired(points, settings, seed)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Bars by routing, a panel for each skew."""
    schemes, skews = run.record["settings"]["schemes"], levels(run, "skew")
    figure, axes = new_figure(max(len(skews), 1), sharey=True)
    width = 0.8 / max(len(schemes), 1)
    for ax, skew in zip(axes, skews, strict=False):
        for j, scheme in enumerate(schemes):
            for i, routing in enumerate(ROUTINGS):
                its, at = {"scheme": scheme, "routing": routing, "skew": skew}, i + width * (j - (len(schemes) - 1) / 2)
                if not (found := matching(run, **its)):
                    continue
                bar(ax, at, values(run, KILO, **its), look_of(scheme), width=0.9 * width)
                bound = found[0]["metrics"]["elements"] / bounds.of_trial(found[0]) / 1000
                ax.plot([at - 0.45 * width, at + 0.45 * width], [bound] * 2, "k:", linewidth=1.4)
            ax.plot([], [], "s", color=look_of(scheme).colour, markersize=8, label=look_of(scheme).label)
        ax.plot([], [], "k:", linewidth=1.4, label="bound")
        ax.set_xticks(range(len(ROUTINGS)), [NAMES[routing] for routing in ROUTINGS])
        ax.set_title(f"{skew:g} ms longer by each further spine" if skew else "all ways alike")
    axes[0].set_ylabel("ATE/s (thousands)")
    named(figure, axes)
    caption = (
        "Aggregated tensor elements per second by how a packet's spine is chosen. Dotted: the bound of the scheme, for which TCP's "
        "traffic goes one way for each destination."
    )
    yield "paths", caption, figure


def findings(run: Run) -> list[str]:
    """What each routing gives, over one way for each destination and all ways alike."""
    sentences = not_valid(run)
    for scheme in run.record["settings"]["schemes"]:
        plain = estimate(run, KILO, scheme=scheme, routing=TREE, skew=0.0)
        if not plain.n:
            continue
        by_skew = []
        for skew in levels(run, "skew"):
            found = {routing: estimate(run, KILO, scheme=scheme, routing=routing, skew=skew) for routing in ROUTINGS}
            ratios = [f"{routing} {each.median / plain.median:.2f}" for routing, each in found.items() if each.n]
            by_skew.append(f"{', '.join(ratios)} with {skew:g} ms of skew")
        label, alone = look_of(scheme).label, words(plain, ",.0f")
        sentences.append(
            f"{label}: {alone} thousand elements a second over one path for each destination; over that: {'; '.join(by_skew)}."
        )
    return sentences
