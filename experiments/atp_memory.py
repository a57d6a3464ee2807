"""Throughput of three jobs against the switch's memory: shared packet by packet, or a fixed part for each (ATP's figure).

Dynamic is ATP, whose jobs share one table. Static is SwitchML with a pool for each job; a slot of it takes two aggregators'
memory, one for each version. What finds no aggregator is added at ATP's parameter servers, so their links fill. Beside it are
ESA, whose switches let urgent packets take aggregators from others, and A2TP's second window, which collisions cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.testbed.draw.curves import bound_line, curve, estimate, levels, look_of, matching, not_valid, ratio, words
from inalab.testbed.draw.plots import named, new_figure, readable
from inalab.testbed.measures import ATE, collisions, into_servers, parts
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError, TrialSettings
from inalab.testbed.plan.sweep import Integers, Point, SweepSettings, paired
from inalab.testbed.record.runs import Run
from inalab.testbed.theory import bounds

ALLOCATIONS: dict[str, dict[str, Any]] = {
    "dynamic": {"scheme": "atp"},
    "static": {"scheme": "switchml"},
    "pre-emptive": {"scheme": "esa"},
    "two windows": {"scheme": "atp", "congestion": "a2tp"},
}
TABLES = tuple(a for a, its in ALLOCATIONS.items() if its["scheme"] != "switchml")  # in which a chunk may find no place
LOOKS = {
    "dynamic": replace(look_of("atp"), label="ATP, one table for all"),
    "static": replace(look_of("switchml"), label="SwitchML, a pool each"),
    "pre-emptive": look_of("esa"),
    "two windows": replace(look_of("atp"), label="ATP with A2TP's window", colour="#8c8c8c", marker="d", line="--"),
}


class Settings(SweepSettings):
    """One rack; each job has two workers, and with ATP a server, on hosts of its own, and trains what has the shape of VGG16."""

    aggregators_per_job: Integers = Field((4, 8, 16, 32, 64, 128), description="memory of the switch, over the jobs")
    number: int = Field(3, ge=1, le=8, description="of jobs")
    racks: int = 1
    workers: int = 2
    host_rate: float = 10.0
    k: int = 64
    slots: int = Field(64, description="atp's window")
    factor: float = Field(
        1e6, gt=0, description="scaling's: a fixed one, as ATP has it; with a tensor's own, each layer waits for a round trip"
    )
    latency: float = Field(5.0, description="ms at each port, so that a full link needs some 30 chunks under way")
    workload: str = "vgg16/4096"
    pipeline: str = "barrier"
    steps: int = 5
    compute_ms: float = 40.0


QUICK: dict[str, Any] = {"aggregators_per_job": (8, 64), "seeds": 1, "steps": 2}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Each allocation with every size of memory. SettingsError where a job would have no slot."""
    if wrong := [a for a in settings.aggregators_per_job if a < 2 or a % 2]:
        raise SettingsError(f"aggregators_per_job has {wrong[0]}: a slot of a static pool takes two, so give even numbers")
    points = []
    for each in settings.aggregators_per_job:
        for allocation, its in ALLOCATIONS.items():
            memory = {"aggregators": settings.number * each} if allocation in TABLES else {"slots": each // 2}
            changes = {**its, "scaling": settings.factor, "jobs": ({},) * settings.number, **memory}
            points.append(Point(f"{allocation}, {each} each", {"allocation": allocation, "aggregators": each}, changes))
    return paired(points, settings, seed)


def _bound(trial: dict[str, Any]) -> float:
    """ATE/s of all jobs together if each had what it needs of the switch."""
    each = zip(TrialSettings(**trial["settings"]).each(), parts(trial), strict=True)
    return float(sum(part["elements"] / bounds.seconds(job, part["elements"]) for job, part in each))


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """ATE/s of all jobs together, and what comes into the servers, against the memory."""
    figure, (rate, load) = new_figure(2)
    for allocation in ALLOCATIONS:
        at = levels(run, "aggregators", allocation=allocation)
        curve(rate, run, "aggregators", ATE, LOOKS[allocation], allocation=allocation)
        if allocation in ("dynamic", "static"):  # the others have ATP's
            heights = [1e-6 * _bound(matching(run, allocation=allocation, aggregators=a)[0]) for a in at]
            bound_line(rate, at, heights, LOOKS[allocation])
        if allocation in TABLES:
            curve(load, run, "aggregators", into_servers, LOOKS[allocation], allocation=allocation)
    load.axhline(1, color="black", linestyle=":", linewidth=1.2, label="every sum once")
    workers = run.record["settings"]["workers"]
    load.axhline(workers, color="grey", linestyle="--", linewidth=1.2, label="no aggregation")
    rate.set_ylabel(f"10⁶ ATE/s, {run.record['settings']['number']} jobs together")
    load.set_ylabel("bytes into the servers (sums)")
    for ax in (rate, load):
        ax.set_xscale("log", base=2)
        ax.set_xticks(levels(run, "aggregators"))
        ax.minorticks_off()
        readable(ax.xaxis)
        ax.set_xlabel("aggregators per job")
        ax.set_ylim(bottom=0)
    named(figure, (rate, load))
    caption = (
        "Aggregated tensor elements per second of all jobs together (dotted: bounds), and bytes into ATP's parameter servers in "
        "sizes of the jobs' sums, against the switch's memory per job. ATP's jobs share all of it, SwitchML's have a pool each, "
        "of which a slot takes two aggregators' memory. ESA's switches pre-empt, and A2TP's window follows collisions. "
        "Medians with intervals."
    )
    yield "atp_memory", caption, figure


def findings(run: Run) -> list[str]:
    """How dynamic compares with static at each size of memory, what the servers had to take in, and what the others gain."""
    sentences = not_valid(run)
    for each in levels(run, "aggregators"):
        dynamic, static, esa, a2tp = ({"allocation": a, "aggregators": each} for a in ALLOCATIONS)
        sentences.append(
            f"{each} aggregators per job: dynamic has {words(ratio(run, ATE, dynamic, static))} times the ATE/s of static "
            f"({words(estimate(run, ATE, **dynamic), '.3f')} against {words(estimate(run, ATE, **static), '.3f')} · 10⁶); "
            f"{words(estimate(run, collisions, **dynamic), '.0f')} % of its packets collide, and the servers take in "
            f"{words(estimate(run, into_servers, **dynamic))} times its sums. ESA has "
            f"{words(ratio(run, ATE, esa, dynamic))} times the ATE/s of ATP, and ATP with A2TP's window "
            f"{words(ratio(run, ATE, a2tp, dynamic))} times."
        )
    return sentences
