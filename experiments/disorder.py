"""What disorder costs: packets that others overtake, packets that come twice, and times that differ from packet to packet.

Every link disturbs its packets in both directions, by the seed. What is held back comes some milliseconds later, and so do copies.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.testbed.draw.curves import curve, levels, look_of, not_valid, over_base, ratio, words
from inalab.testbed.draw.plots import named, new_figure, readable
from inalab.testbed.measures import metric
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Numbers, Point, SweepSettings, Words, paired
from inalab.testbed.record.runs import Run

RUNS_ON = "virtual"
TAT = metric("tat_mean", 1000)
KINDS = {
    "reorder": ("packets held back", "{:.3g} %", 100),
    "duplicate": ("packets that come twice", "{:.3g} %", 100),
    "jitter": ("longer, at most", "{:g} ms", 1),
}  # setting, what it is called, and how a value is written


class Settings(SweepSettings):
    """Two racks of two."""

    shares: Numbers = Field((0.0001, 0.001, 0.01, 0.1), description="of packets that are held back, and that come twice")
    jitters: Numbers = Field((0.5, 1.0, 2.0, 5.0), description="ms that packets take longer, at most")
    schemes: Words = Field(("switchml", "switchml-rdma", "atp", "byteps", "ring"), description="what is compared")
    seeds: int = 3
    workers: int = 2
    workload: str = "tensor-30000"
    steps: int = 8
    hold: float = 5.0
    costs: str = "none"


QUICK: dict[str, Any] = {"shares": (0.01,), "jitters": (2.0,), "schemes": ("switchml", "atp", "ring"), "seeds": 1, "steps": 3}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Each scheme without disorder, and with each kind of it alone."""
    points = []
    for scheme in settings.schemes:
        points.append(Point(f"{scheme}, in order", {"scheme": scheme, "kind": "none", "value": 0.0}, {"scheme": scheme}))
        for kind, (_, form, unit) in KINDS.items():
            for value in settings.jitters if kind == "jitter" else settings.shares:
                factors = {"scheme": scheme, "kind": kind, "value": value}
                points.append(Point(f"{scheme}, {kind} {form.format(unit * value)}", factors, {"scheme": scheme, kind: value}))
    return paired(points, settings, seed)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Times without disorder, against how much of it there is; a panel for each kind."""
    figure, axes = new_figure(len(KINDS), sharey=True)
    for ax, (kind, (name, form, unit)) in zip(axes, KINDS.items(), strict=True):
        at = levels(run, "value", kind=kind)
        for scheme in run.record["settings"]["schemes"]:
            measure = over_base(run, TAT, scheme=scheme, kind="none")
            curve(ax, run, "value", measure, look_of(scheme), at.index, scheme=scheme, kind=kind)
        ax.axhline(1, color="black", linestyle=":", linewidth=1)
        ax.set_xticks(range(len(at)), [form.format(unit * value) for value in at])
        ax.set_xlabel(name)
        ax.set_yscale("log")
        readable(ax.yaxis)
    axes[0].set_ylabel("mean TAT, times that in order")
    named(figure, axes)
    hold = run.record["settings"]["hold"]
    caption = (
        f"Mean tensor aggregation time over that of the same scheme and seed without disorder. What is held back comes {hold:g} ms "
        "later, and so does the copy of a packet that comes twice. Packets that take longer stay in order."
    )
    yield "disorder", caption, figure


def findings(run: Run) -> list[str]:
    """What each amount of each kind costs."""
    sentences = not_valid(run)
    for kind, (name, form, unit) in KINDS.items():
        for value in levels(run, "value", kind=kind):
            costs = {
                scheme: ratio(run, TAT, {"scheme": scheme, "kind": kind, "value": value}, {"scheme": scheme, "kind": "none"})
                for scheme in run.record["settings"]["schemes"]
            }
            parts = [f"{look_of(scheme).label} {words(cost)}" for scheme, cost in costs.items() if cost.n]
            if parts:
                amount = form.format(unit * value)
                sentences.append(f"{amount} {name}: over that in order the mean TAT is {', '.join(parts)}.")
    return sentences
