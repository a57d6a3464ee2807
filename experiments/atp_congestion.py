"""ATP with traffic of others on the way to its server: window control on and off (ATP's congestion figure).

Datagrams flow from the second rack into the server's, whatever becomes of them; the switches' queues are short. With control
the workers' windows follow the marks of deep queues; without, their chunks fill the queue and are lost in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.testbed.draw.curves import curve, estimate, levels, look_of, not_valid, ratio, variant_of, words
from inalab.testbed.draw.plots import named, new_figure
from inalab.testbed.measures import ATE, metric, retransmitted
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Numbers, Point, SweepSettings, paired
from inalab.testbed.record.runs import Run

CONTROL = {"on": "marks", "off": "none"}
LOOKS = {
    "on": replace(look_of("atp"), label="window control"), "off": variant_of(look_of("atp"), "fixed window", 1),
}  # fmt: skip


class Settings(SweepSettings):
    """Two racks of two, one server in the first."""

    rates: Numbers = Field((0.0, 2.0, 4.0, 6.0, 8.0), description="Mbit/s of background traffic")
    scheme: str = "atp"
    racks: int = 2
    workers: int = 2
    queue: int | None = Field(48, description="packets that a port of a switch holds")
    slots: int = 128
    workload: str = "tensor-30000"
    steps: int = 6


QUICK: dict[str, Any] = {"rates": (0.0, 6.0), "seeds": 1, "steps": 3}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Control on and off at every rate of background traffic."""
    return paired(
        (
            Point(f"control {name}, {rate:g} Mbit/s", {"control": name, "background": rate}, {"congestion": on, "background": rate})
            for rate in settings.rates
            for name, on in CONTROL.items()
        ),
        settings,
        seed,
    )


DROPS, RTT = metric("queue_drops"), metric("rtt", 1000)
PANELS = ((ATE, "10⁶ ATE/s"), (DROPS, "packets dropped in queues"), (RTT, "mean round trip (ms)"))


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """ATE/s, drops and round trips against the background traffic."""
    figure, axes = new_figure(3)
    for ax, (measure, label) in zip(axes, PANELS, strict=True):
        for name, look in LOOKS.items():
            curve(ax, run, "background", measure, look, control=name)
        ax.set_ylabel(label)
        ax.set_xlabel("background traffic (Mbit/s)")
        ax.set_xticks(levels(run, "background"))
        ax.set_ylim(bottom=0)
    named(figure, axes)
    settings = run.record["settings"]
    caption = (
        f"ATP's throughput, packets dropped in the switches' queues (of {settings['queue']} packets; the background's own "
        f"included) and round trips, against background traffic over a link of {settings['uplink_rate']:g} Mbit/s towards the "
        "server. Medians with intervals."
    )
    yield "atp_congestion", caption, figure


def findings(run: Run) -> list[str]:
    """What control changes at each rate."""
    sentences = not_valid(run)
    for rate in levels(run, "background"):
        on, off = ({"control": name, "background": rate} for name in CONTROL)
        parts = [
            f"control {here['control']}: {words(estimate(run, DROPS, **here), '.0f')} packets dropped, "
            f"{words(estimate(run, retransmitted, **here), '.1f')} % retransmitted, "
            f"round trip {words(estimate(run, RTT, **here), '.1f')} ms"
            for here in (on, off)
        ]
        sentences.append(
            f"{rate:g} Mbit/s: with control {words(ratio(run, ATE, on, off))} times the ATE/s of without; {'; '.join(parts)}."
        )
    return sentences
