"""What recovering from loss costs SwitchML: retransmitting an overdue chunk, as the paper does, against querying the switch first.

A chunk whose result is overdue lacks this worker's packet, or another one's, or only the result. The paper's worker sends its
packet again in all three cases, and so do all others at the same time. A query is a header, and its answer is the result if
there is one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.testbed.draw.curves import (
    curve,
    estimate,
    in_order,
    levels,
    look_of,
    matching,
    not_valid,
    over_base,
    ratio,
    variant_of,
    words,
)
from inalab.testbed.draw.plots import named, new_figure
from inalab.testbed.measures import Measure, metric, packets_lost
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Integers, Numbers, Point, SweepSettings, paired
from inalab.testbed.record.runs import Run

SWITCHML = look_of("switchml")
LOOKS = {"ask": replace(SWITCHML, label="query first"), "paper": variant_of(SWITCHML, "retransmit (paper)", 1)}
TAT = metric("tat_mean")


class Settings(SweepSettings):
    """One rack. At the first loss rate but 0 that `at` names the number of workers is varied, too."""

    rates: Numbers = Field((0.0, 0.001, 0.003, 0.01, 0.03), description="loss rates, with the largest number of workers")
    sizes: Integers = Field((2, 4, 8), description="numbers of workers, at the loss rate `at`")
    at: float = Field(0.01, gt=0, lt=1, description="the loss rate at which the number of workers is varied")
    racks: int = 1
    k: int = 256
    slots: int = 32
    workload: str = "tensor-40000"
    steps: int = 12
    compute_ms: float = 20.0


QUICK: dict[str, Any] = {"rates": (0.0, 0.01), "sizes": (2, 8), "seeds": 1, "steps": 6}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Both recoveries at every rate and every number of workers."""
    most = max(settings.sizes)
    chosen = {(most, rate) for rate in (0.0, settings.at, *settings.rates)}
    chosen |= {(n, rate) for n in settings.sizes for rate in (0.0, settings.at)}
    points = [
        Point(
            f"{how}, {n} workers, {100 * rate:g} %",
            {"recovery": how, "workers": n, "loss": rate},
            {"recovery": how, "workers": n, "loss": rate},
        )
        for n, rate in sorted(chosen)
        for how in LOOKS
    ]
    return paired(points, settings, seed)


def per_loss(what: str) -> Measure:
    """A number of packets, for each packet that was lost; NaN where none was."""
    return lambda trial: float(trial["metrics"][what] / packets_lost(trial)) if packets_lost(trial) else float("nan")


AGAIN, QUERIES = per_loss("retransmissions"), per_loss("queries")


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """TAT against loss and against the number of workers, and retransmissions per lost packet."""
    settings = run.record["settings"]
    most, at = max(settings["sizes"]), settings["at"]
    figure, (loss, size, again) = new_figure(3)
    rates = [rate for rate in levels(run, "loss", workers=most) if rate]
    sizes = levels(run, "workers")
    for i, (how, look) in enumerate(LOOKS.items()):
        beside = 0.08 * (i - 0.5)
        longer = over_base(run, TAT, recovery=how, workers=most, loss=0.0)
        lossy = [t for t in matching(run, recovery=how, workers=most) if t["factors"]["loss"]]
        if lossy:
            curve(loss, run, "loss", longer, look, _placed(rates, beside), recovery=how, workers=most)
            curve(again, run, "loss", AGAIN, look, _placed(rates, beside), recovery=how, workers=most)
        bases = {n: over_base(run, TAT, recovery=how, workers=n, loss=0.0) for n in sizes}
        curve(size, run, "workers", partial(_inflation, bases), look, in_order(sizes, beside), recovery=how, loss=at)
    for ax in (loss, size):
        ax.axhline(1, color="black", linestyle=":", linewidth=1.2)
    for ax in (loss, again):
        ax.set_xticks(range(len(rates)), [f"{100 * rate:g} %" for rate in rates])
        ax.set_xlim(-0.5, len(rates) - 0.5)
        ax.set_xlabel("loss rate of each link")
    size.set_xticks(range(len(sizes)), [str(n) for n in sizes])
    size.set_xlabel("workers")
    loss.set_ylabel("mean TAT, times that without loss")
    loss.set_title(f"{most} workers")
    size.set_title(f"{100 * at:g} % loss")
    again.set_ylabel("retransmissions per lost packet")
    again.set_title(f"{most} workers")
    again.set_ylim(bottom=0)
    named(figure, (loss, size, again))
    caption = (
        "Left and middle: mean tensor aggregation time over that without loss, of the same recovery, number of workers and seed. "
        "Right: retransmissions (packets with a vector) per lost packet of any kind. Queries are headers of "
        "82 bytes on the wire, and are not counted there. Medians with intervals, a point for each seed."
    )
    yield "recovery", caption, figure


def _inflation(bases: dict[int, Measure], trial: dict[str, Any]) -> float:
    return bases[trial["factors"]["workers"]](trial)


def _placed(rates: list[float], beside: float) -> Any:
    """Places of loss rates but 0, which has none."""
    return lambda rate: rates.index(rate) + beside if rate else float("nan")


def findings(run: Run) -> list[str]:
    """What each recovery costs, in time and in packets."""
    sentences = not_valid(run)
    for n in levels(run, "workers"):
        for rate in (rate for rate in levels(run, "loss", workers=n) if rate):
            parts = []
            for how, look in LOOKS.items():
                point = {"recovery": how, "workers": n, "loss": rate}
                longer = ratio(run, TAT, point, {**point, "loss": 0.0})
                queries = estimate(run, QUERIES, **point)
                sent = words(estimate(run, AGAIN, **point))
                asked = f" and {words(queries, '.1f')} queries" if how == "ask" else ""
                parts.append(
                    f"{look.label}, {words(longer)} times the mean TAT without loss, {sent} retransmissions{asked} per lost packet"
                )
            sentences.append(f"{n} workers, {100 * rate:g} %: {'; '.join(parts)}.")
    return sentences
