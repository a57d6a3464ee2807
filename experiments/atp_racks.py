"""ATP over racks: ATE/s and what uplinks and servers carry, with one server and with one in every rack, against SwitchML.

A server's rack takes in the sums of all other racks, since only the racks' switches add: with one server that link is the
bound, with a server in every rack the load is spread.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.testbed.draw.curves import (
    bound_line,
    by_name,
    curve,
    estimate,
    levels,
    look_of,
    matching,
    near_bound,
    not_valid,
    variant_of,
    words,
)
from inalab.testbed.draw.plots import named, new_figure
from inalab.testbed.measures import ATE, into_servers, of_bound
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError, TrialSettings
from inalab.testbed.plan.sweep import Integers, Point, SweepSettings, paired
from inalab.testbed.record.runs import Run
from inalab.testbed.theory import bounds

VARIANTS = ("switchml", "atp, one server", "atp, a server a rack")
LOOKS = {
    "switchml": look_of("switchml"), "atp, one server": replace(look_of("atp"), label="ATP, one server"),
    "atp, a server a rack": variant_of(look_of("atp"), "ATP, a server in every rack", 1),
}  # fmt: skip


class Settings(SweepSettings):
    """Eight workers in all; an uplink is as fast as a worker's link."""

    shapes: Integers = Field((1, 2, 4), description="numbers of racks")
    size: int = Field(8, ge=2, description="workers in all racks together")
    k: int = 256
    slots: int = 64
    workload: str = "tensor-48000"
    steps: int = 4


QUICK: dict[str, Any] = {"shapes": (1, 2), "seeds": 1, "steps": 3}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Every variant in every shape. SettingsError for racks that are not of a size."""
    if uneven := [racks for racks in settings.shapes if racks < 1 or settings.size % racks]:
        raise SettingsError(f"shapes has {uneven[0]}: {settings.size} workers cannot be spread evenly over so many racks")
    points = []
    for racks in settings.shapes:
        for variant in VARIANTS if racks > 1 else VARIANTS[:2]:
            scheme, comma, _ = variant.partition(",")
            servers = {"servers": racks if variant == VARIANTS[2] else 1} if comma else {}
            changes = {"racks": racks, "workers": settings.size // racks, "scheme": scheme, **servers}
            points.append(Point(f"{variant}, {racks} rack{'s' * (racks > 1)}", {"variant": variant, "racks": racks}, changes))
    return paired(points, settings, seed)


def _busiest(trial: dict[str, Any]) -> float:
    """Bytes over the busiest uplink in its busier direction in a step, in framed tensors."""
    settings, metrics = TrialSettings(**trial["settings"]), trial["metrics"]
    once = bounds.framing(settings, metrics["elements"]) * 4 * metrics["elements"] * settings.steps
    return max((float(max(rack.values()) / once) for rack in metrics.get("uplink_bytes", [])), default=float("nan"))


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """ATE/s with its bounds, and the busiest uplink's load, against the number of racks."""
    figure, (rate, load) = new_figure(2)
    for variant in VARIANTS:
        curve(rate, run, "racks", ATE, LOOKS[variant], variant=variant)
        at = levels(run, "racks", variant=variant)
        bound_line(rate, at, [1e-6 * bounds.ate(matching(run, variant=variant, racks=r)[0]) for r in at], LOOKS[variant])
        curve(load, run, "racks", _busiest, LOOKS[variant], variant=variant)
    rate.set_ylabel("10⁶ ATE/s (dotted: bounds)")
    load.set_ylabel("tensors over the busiest\nuplink in a step")
    for ax in (rate, load):
        ax.set_xticks(levels(run, "racks"))
        ax.set_xlabel(f"racks, {run.record['settings']['size']} workers together")
        ax.set_ylim(bottom=0)
    named(figure, (rate, load))
    caption = (
        "Aggregated tensor elements per second, and the bytes over the busiest uplink in its busier direction, in sizes of the "
        "framed tensor, against the number of racks. Medians with intervals."
    )
    yield "atp_racks", caption, figure


def findings(run: Run) -> list[str]:
    """How near each variant is to its bound, and what uplinks and servers carried."""
    sentences = not_valid(run)
    for name, here in by_name(run).items():
        factors = here[0]["factors"]
        scheme = factors["variant"].partition(",")[0]
        share = near_bound(scheme).words(estimate(run, of_bound, **factors), "of its bound")
        sentences.append(f"{name}: {words(estimate(run, ATE, **factors), '.3f')} · 10⁶ ATE/s, {share}.")
        if factors["racks"] > 1:
            sentences[-1] += f" The busiest uplink carries {words(estimate(run, _busiest, **factors))} tensors a step."
        if scheme == "atp":
            sentences[-1] += f" Into the servers come {words(estimate(run, into_servers, **factors))} times the sums."
    return sentences
