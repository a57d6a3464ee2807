"""SwitchML over UDP and over RDMA: throughput, and what hosts' processors handle, against loss and the packets of a message.

A message is the unit of what a host handles, and the unit of recovery: large ones are cheap without loss, and dear with it. All
have the same window in packets. Over UDP, too, what is overdue is sent again by its timer, as the paper has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.schemes.scheme import Look
from inalab.testbed.draw.curves import curve, estimate, levels, look_of, near_bound, not_valid, variant_of, words
from inalab.testbed.draw.plots import named, new_figure, readable
from inalab.testbed.measures import handled, metric, of_bound
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Integers, Numbers, Point, SweepSettings, paired
from inalab.testbed.record.runs import Run

UDP = 0  # packets of a message, of the trials over UDP
ATE = metric("ate_per_second", 1e-3)


class Settings(SweepSettings):
    """One rack of four; a tensor that takes some 0.3 s, so that a timeout shows and does not rule."""

    messages: Integers = Field((1, 4, 16), description="packets of a message: 1, 2, 4, 8 or 16")
    rates: Numbers = Field((0.0, 0.001, 0.01), description="loss rates")
    racks: int = 1
    slots: int = 64
    workload: str = "tensor-80000"
    steps: int = 8


QUICK: dict[str, Any] = {"messages": (1, 4, 16), "rates": (0.0, 0.01), "seeds": 1, "steps": 4}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Over UDP, and by messages of each size, at every rate."""
    points = []
    for rate in settings.rates:
        for message in (UDP, *settings.messages):
            changes: dict[str, Any] = {"scheme": "switchml-rdma", "message": message}
            if message == UDP:
                changes = {"scheme": "switchml", "recovery": "paper"}
            factors = {"message": message, "loss": rate}
            points.append(Point(f"{_label(message)}, {100 * rate:g} %", factors, changes | {"loss": rate}))
    return paired(points, settings, seed)


def _label(message: int) -> str:
    return "UDP" if message == UDP else f"RDMA, {message} packet{'s' if message > 1 else ''} per message"


def _look(run: Run, message: int) -> Look:
    if message == UDP:
        return replace(look_of("switchml"), label=_label(UDP))
    place = [m for m in levels(run, "message") if m != UDP].index(message)
    return variant_of(look_of("switchml-rdma"), _label(message), place)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """ATE/s, and what processors handle for each element, against the loss rate."""
    figure, (speed, work) = new_figure(2)
    rates = levels(run, "loss")
    for message in levels(run, "message"):
        curve(speed, run, "loss", ATE, _look(run, message), rates.index, message=message)
        curve(work, run, "loss", handled, _look(run, message), rates.index, message=message)
    speed.set_ylabel("thousand ATE/s")
    work.set_ylabel("packets or messages that a processor\nhandles for 1,000 elements")
    work.set_yscale("log")
    readable(work.yaxis)
    speed.set_ylim(bottom=0)
    for ax in (speed, work):
        ax.set_xticks(range(len(rates)), [f"{100 * rate:g} %" for rate in rates])
        ax.set_xlabel("loss rate of each link")
    named(figure, (speed, work))
    caption = (
        "Aggregated tensor elements per second, and what each host's processor sends and receives for a thousand of them: "
        "medians with intervals, a point for each seed. Over RDMA the processor handles messages, and the network interface "
        "splits them into packets. A lost packet costs its whole message, which is sent again when its timer expires. Over UDP, "
        "too, timers do that here."
    )
    yield "rdma", caption, figure


def _best(run: Run, rate: float) -> int:
    """The size of message whose median is the greatest."""
    sizes: list[int] = [m for m in levels(run, "message") if m != UDP]
    return max(sizes, key=lambda m: estimate(run, ATE, message=m, loss=rate).median)


def findings(run: Run) -> list[str]:
    """The share of the bound without loss, and which size of message is best at each rate."""
    sentences = not_valid(run)
    for message in levels(run, "message") if 0.0 in levels(run, "loss") else ():
        scheme = "switchml" if message == UDP else "switchml-rdma"
        share = near_bound(scheme).words(estimate(run, of_bound, message=message, loss=0.0), "of its bound")
        work = words(estimate(run, handled, message=message, loss=0.0), ".1f")
        sentences.append(f"{_label(message)}, no loss: {share}; a processor handles {work} packets or messages per 1,000 elements.")
    for rate in levels(run, "loss"):
        speeds = ", ".join(f"{_label(m)} {words(estimate(run, ATE, message=m, loss=rate), '.0f')}" for m in levels(run, "message"))
        best = _label(_best(run, rate))
        sentences.append(f"{100 * rate:g} % loss, thousand ATE/s: {speeds}. The fastest over RDMA: {best}.")
    return sentences
