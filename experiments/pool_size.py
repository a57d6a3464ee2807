"""TAT and round trip against the number of slots: a window that is too small waits, one that is too large only queues.

(SwitchML's figure of TAT and RTT against the pool's size; its rule is that the window should be the bandwidth-delay product.)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.hosts.switchml import wire
from inalab.testbed.draw.curves import Tolerance, bound_line, curve, estimate, levels, look_of, matching, not_valid, words
from inalab.testbed.draw.plots import named, new_figure, readable
from inalab.testbed.measures import metric
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.plan.sweep import Integers, Point, SweepSettings, paired
from inalab.testbed.record.runs import Run
from inalab.testbed.theory import bounds

MEASURED = replace(look_of("switchml"), label="SwitchML, measured")
OF_LAW = Tolerance(0.95, 1.4)  # what a worker does between a result and the next packet is in no round trip
TAT, RTT = metric("tat_median", 1000), metric("rtt", 1000)


class Settings(SweepSettings):
    """One rack of four, at a rate at which a packet takes less time on the link than the round trip."""

    pools: Integers = Field((1, 2, 4, 8, 16, 32, 64, 128), description="numbers of slots")
    racks: int = 1
    host_rate: float = 50.0
    workload: str = "tensor-200000"
    steps: int = 8
    compute_ms: float = 60.0


QUICK: dict[str, Any] = {"pools": (1, 4, 16, 64), "seeds": 1, "steps": 5}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """One point for each pool."""
    return paired([Point(f"{s} slots", {"slots": s}, {"slots": s}) for s in settings.pools], settings, seed)


def _little(trial: dict[str, Any]) -> float:
    """TAT in ms by Little's law: each round trip brings as many results as there are slots."""
    settings, metrics = TrialSettings(**trial["settings"]), trial["metrics"]
    return float(1000 * bounds.packets(settings, metrics["elements"]) * metrics["rtt"] / trial["factors"]["slots"])


def _queue(trial: dict[str, Any]) -> float:
    """The round trip in ms where the whole window waits in the link's queue."""
    settings = TrialSettings(**trial["settings"])
    return float(1000 * trial["factors"]["slots"] * wire.bits_on_wire(settings.k) / (settings.host_rate * 1e6))


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """TAT and RTT, with Little's law, the line rate, and the time that a whole window takes in a queue."""
    figure, (time, trip) = new_figure(2)
    at = levels(run, "slots")
    curve(time, run, "slots", TAT, MEASURED)
    bound_line(time, at, [estimate(run, _little, slots=s).median for s in at], MEASURED, "packets · measured RTT / slots")
    bound_line(time, at, [1000 * bounds.of_trial(matching(run, slots=s)[0]) for s in at], label="line rate")
    time.set_ylabel("median TAT (ms)")
    time.set_ylim(bottom=0)
    curve(trip, run, "slots", RTT, MEASURED)
    bound_line(trip, at, [_queue(matching(run, slots=s)[0]) for s in at], label="slots · packet time: all in the queue")
    trip.set_ylabel("mean round trip (ms)")
    trip.set_yscale("log")
    readable(trip.yaxis)
    for ax in (time, trip):
        ax.set_xscale("log", base=2)
        ax.set_xticks(at, [str(s) for s in at])
        ax.minorticks_off()
        ax.set_xlabel("slots")
    named(figure, (time, trip))
    caption = (
        "Aggregation time and mean round trip of a packet against the number of slots: medians with intervals. A "
        "window below the bandwidth-delay product waits for round trips; one beyond it gains nothing, and its packets queue."
    )
    yield "pool_size", caption, figure


def findings(run: Run) -> list[str]:
    """Where more slots gain nothing, and what they cost."""
    sentences = not_valid(run)
    for s in levels(run, "slots"):
        tat, rtt = estimate(run, TAT, slots=s), estimate(run, RTT, slots=s)
        law = estimate(run, lambda t: TAT(t) / _little(t), slots=s)
        line = estimate(run, lambda t: TAT(t) / (1000 * bounds.of_trial(t)), slots=s)
        sentences.append(
            f"{s} slots: median TAT {words(tat, '.0f')} ms, {words(line)} times the line rate's, and "
            f"{OF_LAW.words(law, 'times what Little’s law gives')} for the round trip of {words(rtt, '.2f')} ms."
        )
    return sentences
