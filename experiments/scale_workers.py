"""Aggregated elements per second from 2 to 1,024 workers, simulated, with two and three levels of switches.

Racks have 32 and 16 workers, and uplinks carry all or a share of what they send. Points that were measured are drawn in. What
lies beyond them is shaded: it is extrapolation.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.hosts.atp.tree import BITS
from inalab.testbed.draw.curves import curve, levels, look_of, not_valid, ratio, words
from inalab.testbed.draw.plots import named, new_figure
from inalab.testbed.draw.simulated import draw_measured, shade
from inalab.testbed.measures import ATE
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError
from inalab.testbed.plan.sweep import Integers, Numbers, Point, Sizes, SweepSettings, Words, paired, racks_of
from inalab.testbed.record.runs import Run
from inalab.topologies.topology import MAX_RACKS

RUNS_ON = "simulated"
BY_NUMBER = ("switchml", "ps", "tree")  # whose packets or messages grow with the number of workers
TWO, THREE = LEVELS = (2, 3)  # of switches
IN_POD = 8  # racks at most


class Settings(SweepSettings):
    """As in experiment validation, whose measured points are drawn in.

    A rack's uplink has its hosts' rates over the factor; a pod's has its racks' uplinks' over it, but the rate of one at least.
    """

    sizes: Sizes = Field((2, 4, 8, 16, 32, 64, 128, 256, 512, 1024), description="numbers of workers")
    rack_sizes: Integers = Field((32, 16), description="workers of a full rack")
    levels: Integers = Field(LEVELS, description="of switches: racks under a root, or in pods under a core")
    oversubscription: Numbers = Field((1.0, 8.0), description="rates of a rack's hosts together, over that of its uplink")
    most_messages: int = Field(
        256, ge=2, description="workers of the schemes whose messages grow with the square of their number, at most"
    )
    schemes: Words = Field(
        ("switchml", "atp", "ring", "halving-doubling", "tree", "ps", "ps-sharded", "byteps", "gloo"),
        description="what is compared",
    )
    seeds: int = 1
    racks: int = 1
    k: int = 256
    slots: int = 32
    workload: str = "tensor-40000"
    steps: int = 2
    compute_ms: float = 40.0


QUICK: dict[str, Any] = {
    "sizes": (2, 64), "rack_sizes": (32,), "schemes": ("switchml", "ring"), "oversubscription": (1.0,),
}  # fmt: skip


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Every scheme on every network that it takes more than one full rack to tell from others."""
    if unknown := set(settings.levels) - set(LEVELS):
        raise SettingsError(f"levels has {min(unknown)}: there are networks of {TWO} and of {THREE} levels")
    points = []
    for levels_, rack, over, n in product(settings.levels, settings.rack_sizes, settings.oversubscription, settings.sizes):
        if -(-n // rack) > MAX_RACKS:
            continue
        racks = racks_of(n, rack)
        shape: dict[str, Any] = {"racks": racks, "workers": n // racks}
        if racks > 1:
            shape["uplink_rate"] = settings.host_rate * rack / over
            if levels_ == THREE:
                pods = max(2, -(-racks // IN_POD))
                core = shape["uplink_rate"] * max(1.0, racks / pods / over)
                shape |= {"topology": "pods", "pods": pods, "core_rate": core}
        for scheme in settings.schemes:
            if scheme not in BY_NUMBER and n > settings.most_messages:
                continue
            if scheme == "atp" and not _fits_atp(racks, n // racks, levels_):
                continue
            name = f"{scheme}, {n} workers, racks of {rack}, {over:g}:1, {levels_} levels"
            factors = {"scheme": scheme, "workers": n, "rack": rack, "oversubscription": over, "levels": levels_}
            points.append(Point(name, factors, {"scheme": scheme, **shape}))
    return paired(points, settings, seed)


def _fits_atp(racks: int, workers: int, levels_: int) -> bool:
    """Whether ATP's bitmaps hold so many racks (hosts.atp.tree), at no more than two levels."""
    return racks == 1 or (levels_ == TWO and workers + racks - 1 < BITS)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """A picture for each number of levels, with a panel for each network."""
    for levels_ in run.record["settings"]["levels"]:
        name = "scale_workers" if levels_ == TWO else "scale_workers_pods"
        yield name, *_picture(run, levels_)


def _picture(run: Run, levels_: int) -> tuple[str, Figure]:
    settings = run.record["settings"]
    shapes = list(product(settings["rack_sizes"], settings["oversubscription"]))
    figure, axes = new_figure(min(len(shapes), 2), -(-len(shapes) // 2), sharex=True, sharey=True)
    for ax, (rack, over) in zip(axes, shapes, strict=False):
        for scheme in settings["schemes"]:
            curve(ax, run, "workers", ATE, look_of(scheme), scheme=scheme, rack=rack, oversubscription=over, levels=levels_)
            draw_measured(ax, run, scheme)
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        at = levels(run, "workers")
        ax.set_xticks(at, [str(n) for n in at])
        ax.minorticks_off()
        ax.set_xlabel("workers")
        ax.set_title(f"racks of {rack}, {over:g}:1")
        shade(ax, run, low=True)
    for ax in axes[::2]:
        ax.set_ylabel("10⁶ ATE/s")
    for ax in axes[len(shapes) :]:
        ax.set_visible(False)
        axes[len(shapes) - 2].tick_params(labelbottom=True)  # above a panel that is not there
    named(figure, axes[: len(shapes)])
    tiers = "racks under a root" if levels_ == TWO else "racks in pods under a core"
    caption = (
        f"Aggregated tensor elements per second against the number of workers, {settings['host_rate']:g} Mbit/s to each, {tiers}. "
        "Lines are simulated; circles with bars were measured on the embedded target (medians and intervals of validation). "
        "Shaded: beyond what was measured, extrapolation. "
        "docs/reference/validation.md tells with which schemes the simulator may be trusted."
    )
    return caption, figure


def findings(run: Run) -> list[str]:
    """How SwitchML's rate holds, and what it gains over the others, on each network."""
    sentences = not_valid(run)
    settings, sizes = run.record["settings"], levels(run, "workers")
    for levels_, rack, over in product(settings["levels"], settings["rack_sizes"], settings["oversubscription"]):
        at = {"rack": rack, "oversubscription": over, "levels": levels_}
        own = [n for n in sizes if n in levels(run, "workers", scheme="switchml", **at)]
        if not own:
            continue
        most, least = {"scheme": "switchml", "workers": own[-1], **at}, {"scheme": "switchml", "workers": own[0], **at}
        sentences.append(
            f"{levels_} levels, racks of {rack}, {over:g}:1: SwitchML's ATE/s with {own[-1]} workers is "
            f"{words(ratio(run, ATE, most, least))} of that with {own[0]}, simulated."
        )
        for scheme in settings["schemes"]:
            gain = ratio(run, ATE, most, {**most, "scheme": scheme})
            if scheme != "switchml" and gain.n:
                sentences.append(f"Over {look_of(scheme).label} it gains {words(gain)} times, simulated.")
    return sentences
