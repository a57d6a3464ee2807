"""How much longer an all-reduce takes when packets are lost: ATP, which repairs end to end, against SwitchML, hop by hop.

The paper's congestion window takes a loss for congestion. Where it follows marks alone, or is fixed, only the resends are left
of its cost.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.testbed.draw.curves import curve, estimate, in_order, levels, look_of, not_valid, over_base, ratio, variant_of, words
from inalab.testbed.draw.plots import named, new_figure, readable
from inalab.testbed.measures import metric, retransmitted
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Numbers, Point, SweepSettings, paired
from inalab.testbed.record.runs import Run

TAT = metric("tat_mean")
VARIANTS: dict[str, dict[str, Any]] = {
    "switchml": {"scheme": "switchml"}, "atp": {"scheme": "atp"},
    "atp, paper's window": {"scheme": "atp", "congestion": "paper"}, "atp, window fixed": {"scheme": "atp", "congestion": "none"},
}  # fmt: skip
LOOKS = {
    "switchml": look_of("switchml"),
    "atp": look_of("atp"),
    "atp, paper's window": variant_of(look_of("atp"), "ATP, the paper's window", 1),
    "atp, window fixed": variant_of(look_of("atp"), "ATP, fixed window", 0),
}


class Settings(SweepSettings):
    """One rack of four, as in `loss`."""

    rates: Numbers = Field((0.0, 0.0001, 0.001, 0.01, 0.03), description="loss rates, 0 among them")
    racks: int = 1
    k: int = 256
    slots: int = 16
    workload: str = "tensor-15000"
    steps: int = 12
    compute_ms: float = 20.0


QUICK: dict[str, Any] = {"rates": (0.0, 0.01), "seeds": 1, "steps": 6}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Every variant at every rate of Bernoulli loss."""
    return paired(
        (
            Point(f"{variant}, {100 * rate:g} %", {"variant": variant, "loss": rate}, {**changes, "loss": rate})
            for rate in sorted({0.0, *settings.rates})
            for variant, changes in VARIANTS.items()
        ),
        settings,
        seed,
    )


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Inflation and retransmissions against the loss rate."""
    figure, (longer, again) = new_figure(2)
    rates = levels(run, "loss")
    for j, variant in enumerate(VARIANTS):
        place = in_order(rates, 0.07 * (j - 1.5))  # so that intervals do not hide each other
        longer_than = over_base(run, TAT, variant=variant, loss=0.0)
        curve(longer, run, "loss", longer_than, LOOKS[variant], place, variant=variant)
        curve(again, run, "loss", retransmitted, LOOKS[variant], place, variant=variant)
    longer.axhline(1, color="black", linestyle=":", linewidth=1.2)
    longer.set_ylabel("mean TAT, times that without loss")
    longer.set_yscale("log")
    readable(longer.yaxis)
    again.set_ylabel("retransmissions (% of packets)")
    again.set_ylim(bottom=0)
    for ax in (longer, again):
        ax.set_xticks(range(len(rates)), [f"{100 * rate:g} %" for rate in rates])
        ax.set_xlabel("loss rate of each link")
    named(figure, (longer, again))
    caption = (
        "Mean tensor aggregation time under Bernoulli loss over that without, of the same variant and seed, and the share of "
        "retransmissions of the workers: medians with intervals, a point for each seed."
    )
    yield "atp_loss", caption, figure


def findings(run: Run) -> list[str]:
    """What each rate costs each variant."""
    sentences = not_valid(run)
    for rate in levels(run, "loss"):
        parts = []
        for variant in VARIANTS:
            here = {"variant": variant, "loss": rate}
            cost = ratio(run, TAT, here, {"variant": variant, "loss": 0.0})
            parts.append(
                f"{LOOKS[variant].label} {words(cost)} (retransmitted: {words(estimate(run, retransmitted, **here), '.1f')} %)"
            )
        sentences.append(f"{100 * rate:g} %: the mean TAT is {'; '.join(parts)} times that without loss.")
    fixed = ratio(run, TAT, {"variant": "atp", "loss": 0.0}, {"variant": "switchml", "loss": 0.0})
    sentences.append(f"Without loss ATP's mean TAT is {words(fixed)} times SwitchML's.")
    return sentences
