"""BytePS over two racks with oversubscribed uplinks, beside a ring and sums in the switches.

BytePS is optimal where hosts' links are the bottleneck, but takes no account of uplinks. Each worker exchanges with the services of
the other rack, so an uplink carries one tensor for each worker of its rack. Over a ring it carries not quite two tensors in all;
where the rack's switch sums, it carries one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.testbed.draw.curves import (
    bound_line,
    curve,
    estimate,
    levels,
    look_of,
    matching,
    near_bound,
    not_valid,
    ratio,
    variant_of,
    words,
)
from inalab.testbed.draw.plots import named, new_figure
from inalab.testbed.measures import ATE, of_bound, up_busiest_uplink, uplink_in_closed_form
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError
from inalab.testbed.plan.sweep import Integers, Point, SweepSettings, paired
from inalab.testbed.record.runs import Run
from inalab.testbed.theory import bounds

BYTEPS = look_of("byteps")
LOOKS = {
    "byteps": BYTEPS, "byteps, spare": variant_of(BYTEPS, "BytePS, as many spare hosts"),
    "ring": look_of("ring"), "switchml": look_of("switchml"),
}  # fmt: skip


class Settings(SweepSettings):
    """Two racks of four."""

    oversubscriptions: Integers = Field((1, 2, 4), description="the rates of a rack's workers together over its uplink's")
    racks: int = 2
    host_rate: float = 10.0
    k: int = 256
    slots: int = 32
    workload: str = "tensor-50000"
    steps: int = 4
    compute_ms: float = 60.0


QUICK: dict[str, Any] = {"oversubscriptions": (4,), "seeds": 1, "steps": 2, "workload": "tensor-20000"}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Each way at every oversubscription. SettingsError for one rack, which has no uplink."""
    if settings.racks < 2:
        raise SettingsError(f"racks is {settings.racks}: byteps_racks is about the links between two or more")
    ways: dict[str, dict[str, Any]] = {
        "byteps": {"scheme": "byteps", "byteps.servers": 0},
        "byteps, spare": {"scheme": "byteps", "byteps.servers": settings.racks * settings.workers},
        "ring": {"scheme": "ring"},
        "switchml": {"scheme": "switchml"},
    }
    return paired(
        [
            Point(
                f"{way}, {over}:1",
                {"way": way, "oversubscription": over},
                changes | {"uplink_rate": settings.workers * settings.host_rate / over},
            )
            for over in settings.oversubscriptions
            for way, changes in ways.items()
        ],
        settings,
        seed,
    )


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """ATE/s over oversubscription, and bytes over the uplink."""
    figure, (rates, bytes_up) = new_figure(2)
    at, settings = levels(run, "oversubscription"), run.record["settings"]
    for number, (way, look) in enumerate(LOOKS.items()):
        curve(rates, run, "oversubscription", ATE, look, way=way)
        here = {over: matching(run, way=way, oversubscription=over)[0] for over in levels(run, "oversubscription", way=way)}
        bound_line(rates, here, [1e-6 * bounds.ate(trial) for trial in here.values()], look)
        carried = estimate(run, up_busiest_uplink, way=way)
        if carried.n:
            bytes_up.bar(number, carried.median, 0.7, color=look.colour)
            form = uplink_in_closed_form(next(iter(here.values())))
            bytes_up.plot([number - 0.35, number + 0.35], [form] * 2, "k-", linewidth=1.8)
    bytes_up.plot([], [], "k-", linewidth=1.8, label="closed form")
    rates.set_xticks(at, [f"{over}:1" for over in at])
    rates.set_xlabel("rates of a rack's workers over its uplink's")
    rates.set_ylabel("10⁶ ATE/s")
    rates.set_ylim(bottom=0)
    rates.set_title("dotted: bounds")
    bytes_up.set_xticks(range(len(LOOKS)), [look.label.replace(", as many", ",\nas many") for look in LOOKS.values()])
    bytes_up.set_ylabel("tensors up the busiest\nuplink in a step")
    named(figure, (rates, bytes_up))
    caption = (
        f"{settings['racks']} racks of {settings['workers']} at {settings['host_rate']:g} Mbit/s: aggregated tensor elements per "
        "second against what a rack's workers can send over what its uplink can, and what the busiest uplink carries in a step. "
        "Spare hosts are dealt out to both racks. Medians with intervals."
    )
    yield "byteps_racks", caption, figure


def findings(run: Run) -> list[str]:
    """How near each way is to its bound, and what the others gain over BytePS."""
    sentences = not_valid(run)
    for over in levels(run, "oversubscription"):
        for way, look in LOOKS.items():
            here: dict[str, Any] = {"way": way, "oversubscription": over}
            if not matching(run, **here):
                continue
            tolerance = near_bound(matching(run, **here)[0]["settings"]["scheme"])
            share = tolerance.words(estimate(run, of_bound, **here), "of its bound")
            gain = ratio(run, ATE, here, {"way": "byteps", "oversubscription": over})
            carried = estimate(run, up_busiest_uplink, **here)
            wording = "" if way == "byteps" else f"; {words(gain)} times the ATE/s of BytePS without spare hosts"
            sentences.append(f"{look.label}, {over}:1: {words(carried)} tensors up an uplink, {share}{wording}.")
    return sentences
