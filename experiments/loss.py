"""How much longer an all-reduce takes when packets are lost: SwitchML against Gloo and ring over TCP (SwitchML's loss figure).

Packets are lost on every link, in both directions, each on its own (Bernoulli) or, with bursts=true, also in bursts
(Gilbert–Elliott, 4 packets on average). Inflation is the mean TAT over that of the same scheme and seed without loss.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.testbed.draw.curves import curve, estimate, levels, look_of, not_valid, over_base, ratio, words
from inalab.testbed.draw.plots import named, new_figure, readable
from inalab.testbed.measures import metric, packets_lost
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Numbers, Point, SweepSettings, Words, paired
from inalab.testbed.record.runs import Run
from inalab.testbed.record.statistics import Interval

TAT = metric("tat_mean", 1000)
ALONE = {"Bernoulli": 1.0}  # mean burst
KINDS = ALONE | {"bursts of 4": 4.0}


class Settings(SweepSettings):
    """One rack of four; a tensor that takes some 50 ms, so that a timeout shows."""

    rates: Numbers = Field((0.0, 0.0001, 0.001, 0.01, 0.03), description="loss rates; 0 is always among them")
    bursts: bool = Field(False, description="losses also in bursts of 4, in which TCP may stand still for a minute")
    schemes: Words = Field(("switchml", "ring", "gloo"), description="what is compared")
    racks: int = 1
    k: int = 256
    slots: int = 16
    workload: str = "tensor-15000"
    steps: int = 12
    compute_ms: float = 20.0
    patience: float = 45.0


def _kinds(run: Run) -> dict[str, float]:
    return KINDS if run.record["settings"].get("bursts", True) else ALONE  # a record without the setting has both kinds


QUICK: dict[str, Any] = {"rates": (0.0, 0.01), "seeds": 1, "steps": 6}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Every scheme at every rate, losses alone and in bursts."""
    points = []
    for rate in sorted({0.0, *settings.rates}):
        for kind, burst in (KINDS if settings.bursts else ALONE).items() if rate else [("none", 1.0)]:
            for scheme in settings.schemes:
                name = f"{scheme}, {100 * rate:g} %" + (f" {kind}" if rate else "")
                factors = {"scheme": scheme, "loss": rate, "kind": kind}
                points.append(Point(name, factors, {"scheme": scheme, "loss": rate, "burst": burst}))
    return paired(points, settings, seed)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """The mean TAT in ms, and over that without loss, against the rate; a row for each kind of loss."""
    kinds, rates = _kinds(run), levels(run, "loss")
    figure, axes = new_figure(2, len(kinds), sharex=True)
    for row, kind in enumerate(kinds):
        whole, times = axes[2 * row : 2 * row + 2]
        for scheme in run.record["settings"]["schemes"]:
            shown = {"scheme": scheme, "kind": [kind, "none"]}
            curve(whole, run, "loss", TAT, look_of(scheme), rates.index, **shown)
            curve(times, run, "loss", over_base(run, TAT, scheme=scheme, loss=0.0), look_of(scheme), rates.index, **shown)
        whole.set_ylabel("mean TAT (ms)")
        times.set_ylabel("times that without loss")
        times.axhline(1, color="black", linestyle=":", linewidth=1)
        for ax in (whole, times):
            ax.set_yscale("log")
            readable(ax.yaxis)
            ax.set_xticks(range(len(rates)), [f"{100 * rate:g} %" for rate in rates])
            if len(kinds) > 1:
                ax.set_title(kind)
    for ax in axes[-2:]:
        ax.set_xlabel("loss rate of each link")
    named(figure, axes)
    caption = (
        "Mean tensor aggregation time under loss, and over that without, of the same scheme and seed: medians with "
        "intervals, a point for each seed. Gloo and ring run over the kernel's TCP, which waits 200 ms for a first timeout and "
        "twice as long for each further one."
    )
    if len(kinds) > 1:
        caption += " A burst ends after a number of packets and not after a time, so it can last a minute. Such a trial fails."
    yield "loss", caption, figure


def _cost(run: Run, scheme: str, rate: float, kind: str) -> Interval:
    return ratio(run, TAT, {"scheme": scheme, "loss": rate, "kind": kind}, {"scheme": scheme, "loss": 0.0})


def findings(run: Run) -> list[str]:
    """What each rate costs each scheme."""
    sentences = not_valid(run)
    for kind in _kinds(run):
        for rate in (rate for rate in levels(run, "loss") if rate):
            parts = [
                f"{look_of(scheme).label} {words(_cost(run, scheme, rate, kind))}" for scheme in run.record["settings"]["schemes"]
            ]
            dropped = estimate(run, packets_lost, scheme="switchml", loss=rate, kind=kind)
            sentences.append(
                f"{100 * rate:g} % {kind}: the mean TAT is {', '.join(parts)} times that without loss "
                f"(packets lost in a trial of SwitchML: {words(dropped, '.0f')})."
            )
    return sentences
