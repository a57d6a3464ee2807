"""TAT and round trip against the number of slots: a window that is too small waits, one that is too large only queues.

(SwitchML's figure of TAT and RTT against the pool's size; its rule is that the window should be the bandwidth-delay product.)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from pydantic import Field

from experiments import bounds
from experiments.curves import Look, Tolerance, bound_line, curve, estimate, levels, matching, metric, not_valid, words
from experiments.experiment import Trial
from experiments.plots import COLOURS, new_figure, readable
from experiments.results import Run
from experiments.sweep import Integers, Point, SweepSettings, paired
from hosts import wire

MEASURED = Look("measured", COLOURS[0])
OF_MODEL = Tolerance(0.95, 1.5)  # small pools wait for wake-ups too, which are no part of a smoothed round trip
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


def _model(run: Run, slots: int) -> tuple[float, float]:
    """(TAT, RTT) in seconds: the link's share or the window's, with the round trip of one packet alone as measured."""
    trial = matching(run, slots=slots)[0]
    alone = estimate(run, metric("rtt"), slots=min(levels(run, "slots"))).median
    if not alone > 0:
        return float("nan"), float("nan")
    k, rate = trial["settings"]["k"], trial["settings"]["host_rate"] * 1e6
    packet = wire.bits_on_wire(k) / rate
    packets = bounds.of_trial(trial) / packet
    rtt = max(alone, slots * packet)
    return packets * rtt / slots, rtt


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """TAT and RTT, with what the window and the link make of them."""
    figure, (time, trip) = new_figure(2, size=(9.0, 3.8))
    at = levels(run, "slots")
    model = np.array([_model(run, s) for s in at]) * 1000
    curve(time, run, "slots", TAT, MEASURED)
    bound_line(time, at, model[:, 0], label="packets · RTT / slots, or the line rate")
    time.set_ylabel("TAT (ms)")
    time.set_ylim(bottom=0)
    curve(trip, run, "slots", RTT, MEASURED)
    bound_line(trip, at, model[:, 1], label="one packet's round trip, or slots · packet time")
    trip.set_ylabel("round trip (ms)")
    trip.set_yscale("log")
    readable(trip.yaxis)
    for ax in (time, trip):
        ax.set_xscale("log", base=2)
        ax.set_xticks(at, [str(s) for s in at])
        ax.minorticks_off()
        ax.set_xlabel("slots")
        ax.legend(frameon=False, fontsize=8)
    caption = (
        "Aggregation time and smoothed round trip against the number of slots: medians with bootstrap 95 % intervals. Dotted: "
        "the model, which takes from the measurements only the round trip of the smallest pool."
    )
    yield "pool_size", caption, figure


def findings(run: Run) -> list[str]:
    """Where more slots gain nothing, and what they cost."""
    said = not_valid(run)
    for s in levels(run, "slots"):
        tat, rtt = _model(run, s)
        if not estimate(run, TAT, slots=s).n or not rtt > 0:
            said.append(f"{s} slots: no valid trial, or none of the smallest pool to compare with.")
            continue
        off = estimate(run, metric("tat_median", 1 / tat), slots=s)
        said.append(
            f"{s} slots: TAT {words(estimate(run, TAT, slots=s), '.0f')} ms, {OF_MODEL.words(off)} of the model's; round trip "
            f"{words(estimate(run, RTT, slots=s), '.1f')} ms (model {1000 * rtt:.1f})."
        )
    return said
