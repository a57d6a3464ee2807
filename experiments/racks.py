"""Racks under an oversubscribed root: bytes over the uplinks and ATE/s, SwitchML in two levels against the baselines.

Eight workers in 1, 2 or 4 racks; a rack's uplink has its workers' rates together, divided by the oversubscription. In the
network a rack's switch sends the tensor up once, however many workers it has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.testbed.draw.curves import (
    Tolerance,
    bound_line,
    by_name,
    curve,
    estimate,
    levels,
    look_of,
    matching,
    near_bound,
    not_valid,
    words,
)
from inalab.testbed.draw.plots import named, new_figure
from inalab.testbed.measures import ATE, of_bound, up_busiest_uplink, uplink_in_closed_form
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError
from inalab.testbed.plan.sweep import Integers, Point, SweepSettings, Words, paired
from inalab.testbed.record.runs import Run
from inalab.testbed.theory import bounds

OF_FORM = Tolerance(0.98, 1.15)  # over TCP, acknowledgements for what comes down go up too


class Settings(SweepSettings):
    """Eight workers in all."""

    shapes: Integers = Field((1, 2, 4), description="numbers of racks")
    oversubscriptions: Integers = Field((1, 2, 4), description="a rack's rates together over its uplink's")
    size: int = Field(8, ge=2, description="workers in all racks together")
    schemes: Words = Field(("switchml", "ring", "gloo", "ps", "ps-sharded"), description="what is compared")
    k: int = 256
    slots: int = 32
    workload: str = "tensor-48000"
    steps: int = 3


QUICK: dict[str, Any] = {"shapes": (1, 2), "oversubscriptions": (1, 4), "schemes": ("switchml", "gloo"), "seeds": 1, "steps": 4}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Every scheme in every shape; one rack has no uplink to oversubscribe. SettingsError for racks that are not of a size."""
    if uneven := [racks for racks in settings.shapes if racks < 1 or settings.size % racks]:
        raise SettingsError(f"shapes has {uneven[0]}: {settings.size} workers cannot be spread evenly over so many racks")
    points = []
    for racks in settings.shapes:
        for over in settings.oversubscriptions if racks > 1 else (1,):
            m = settings.size // racks
            shape = {"racks": racks, "workers": m, "uplink_rate": m * settings.host_rate / over}
            for scheme in settings.schemes:
                name = f"{scheme}, {racks} rack{'s' * (racks > 1)}" + (f", {over}:1" if racks > 1 else "")
                factors = {"scheme": scheme, "racks": racks, "oversubscription": over}
                points.append(Point(name, factors, {**shape, "scheme": scheme}))
    return paired(points, settings, seed)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """ATE/s against oversubscription for each number of racks, and bytes over the uplink."""
    shapes = levels(run, "racks")
    columns = min(len(shapes) + 1, 2)
    figure, axes = new_figure(columns, -(-(len(shapes) + 1) // columns))
    schemes, size = run.record["settings"]["schemes"], run.record["settings"]["size"]
    for ax, racks in zip(axes, shapes, strict=False):
        for scheme in schemes:
            here = {"scheme": scheme, "racks": racks}
            curve(ax, run, "oversubscription", ATE, look_of(scheme), **here)
            at = levels(run, "oversubscription", **here)
            heights = [1e-6 * bounds.ate(matching(run, oversubscription=o, **here)[0]) for o in at]
            bound_line(ax, at, heights, look_of(scheme))
        ax.set_title(f"{racks} rack{'s' * (racks > 1)} of {size // racks}; dotted: bounds")
        at = levels(run, "oversubscription", racks=racks)
        ax.set_xticks(at, [f"{o}:1" for o in at] if racks > 1 else ["no uplinks"])
        ax.set_xlabel("oversubscription of the uplinks" if racks > 1 else "")
        ax.set_ylabel("10⁶ ATE/s")
        ax.set_ylim(bottom=0)
    _draw_uplinks(axes[len(shapes)], run, [racks for racks in shapes if racks > 1], schemes)
    for ax in axes[len(shapes) + 1 :]:
        ax.set_visible(False)
    named(figure, axes[: len(shapes) + 1])
    caption = (
        f"{size} workers: aggregated tensor elements per second against the oversubscription of the racks' uplinks, and bytes up "
        "the busiest uplink in a step, in sizes of the tensor (black: closed forms, with headers and exponents). Medians with "
        "intervals."
    )
    yield "racks", caption, figure


def _draw_uplinks(ax: Any, run: Run, shapes: list[int], schemes: list[str]) -> None:
    width = 0.8 / len(schemes)
    for j, scheme in enumerate(schemes):
        look = look_of(scheme)
        for i, racks in enumerate(shapes):
            at = i + (j - (len(schemes) - 1) / 2) * width
            over = min(levels(run, "oversubscription", racks=racks))
            carried = estimate(run, up_busiest_uplink, scheme=scheme, racks=racks, oversubscription=over)
            if not carried.n:
                ax.annotate("no valid trial", (at, 0), rotation=90, ha="center", va="bottom")
                continue
            ax.bar(at, carried.median, 0.9 * width, color=look.colour, label=look.label if i == 0 else None)
            if carried.known:
                ax.errorbar(
                    at, carried.median, [[carried.median - carried.low], [carried.high - carried.median]], color="grey", capsize=2
                )
            form = uplink_in_closed_form(matching(run, scheme=scheme, racks=racks, oversubscription=over)[0])
            ax.plot([at - 0.45 * width, at + 0.45 * width], [form] * 2, "k-", linewidth=1.8)
    ax.set_xticks(range(len(shapes)), [f"{racks} racks" for racks in shapes])
    ax.set_ylabel("tensors up the busiest\nuplink in a step")
    ax.set_title("uplinks; black: closed forms")


def findings(run: Run) -> list[str]:
    """How near each scheme is to its bound, and what its uplinks carry."""
    sentences = not_valid(run)
    for name, here in by_name(run).items():
        factors = here[0]["factors"]
        ate, share = estimate(run, ATE, **factors), estimate(run, of_bound, **factors)
        sentences.append(f"{name}: {words(ate, '.3f')} · 10⁶ ATE/s, {near_bound(factors['scheme']).words(share, 'of its bound')}.")
        if factors["racks"] > 1:
            carried = estimate(run, up_busiest_uplink, **factors)
            over = estimate(run, lambda t: up_busiest_uplink(t) / uplink_in_closed_form(t), **factors)
            sentences[-1] += (
                f" Up the busiest uplink go {words(carried)} tensors a step, {OF_FORM.words(over, 'of the closed form')}."
            )
    return sentences
