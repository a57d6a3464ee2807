"""ATP and SwitchML jobs on one network, whose switches run one program for both, and share out their memory.

Two jobs of each train beside each other. A part of a switch's memory is ATP's table, and the rest are SwitchML's pools, of
which a slot takes two aggregators' memory. In a last trial one job of each comes later and leaves earlier than the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.testbed.draw.curves import bound_line, curve, estimate, levels, look_of, matching, not_valid, words
from inalab.testbed.draw.plots import named, new_figure
from inalab.testbed.measures import Measure, fairness, parts
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError, TrialSettings
from inalab.testbed.plan.sweep import Numbers, Point, SweepSettings, paired
from inalab.testbed.record.runs import Run
from inalab.testbed.record.statistics import median_interval
from inalab.testbed.theory import bounds

SCHEMES = ("atp", "switchml")
EACH = 2  # jobs
LATER = "some come later"


class Settings(SweepSettings):
    """Two racks; each job has a worker in both, and ATP's have a server. All share an uplink."""

    shares: Numbers = Field((0.125, 0.25, 0.5, 0.75, 0.875), description="of the memory, that are ATP's")
    memory: int = Field(256, ge=16, description="of a switch, in aggregators")
    workers: int = 1
    host_rate: float = 10.0
    uplink_rate: float = 20.0
    latency: float = Field(2.0, description="ms at each port, so that a full link needs some 50 chunks under way")
    slots: int = Field(64, description="atp's window")
    factor: float = Field(
        1e6, gt=0, description="scaling's: a fixed one, as ATP has it; with a tensor's own, each layer waits for a round trip"
    )
    workload: str = "vgg16/4096"
    steps: int = 6
    start: float = Field(0.3, ge=0, description="seconds until the jobs begin that come later")
    stay: int = Field(2, ge=1, description="steps of theirs")
    compute_ms: float = 40.0


QUICK: dict[str, Any] = {"shares": (0.25, 0.75), "seeds": 1, "steps": 4, "stay": 1}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Every share, and jobs that come and go with equal shares. SettingsError where a job would have no memory."""
    points = []
    for share in settings.shares:
        if not 0 < share < 1:
            raise SettingsError(f"shares has {share:g}: give numbers between 0 and 1")
        points.append(Point(f"{share:g} ATP's", {"share": share, "change": "none"}, _shared(settings, share)))
    changes = _shared(settings, 0.5)
    later = {"start": settings.start, "steps": settings.stay}
    changes["jobs"] = tuple(job | (later if n % EACH else {}) for n, job in enumerate(changes["jobs"]))
    points.append(Point(LATER, {"change": LATER}, changes))
    return paired(points, settings, seed)


def _shared(settings: Settings, share: float) -> dict[str, Any]:
    """Jobs, and their memory. SettingsError where that would be none."""
    aggregators = round(share * settings.memory)
    slots = (settings.memory - aggregators) // 2 // EACH
    if not (aggregators and slots):
        raise SettingsError(f"memory is {settings.memory}: with a share of {share:g} some job has none; set more")
    own = {"atp": {"aggregators": aggregators}, "switchml": {"slots": min(slots, settings.slots)}}
    return {"scaling": settings.factor, "jobs": tuple({"scheme": scheme, **own[scheme]} for scheme in SCHEMES for _ in range(EACH))}


def _rate(scheme: str) -> Measure:
    """Elements per second of communication of a scheme's jobs, in millions: their mean."""
    first = EACH * SCHEMES.index(scheme)
    return lambda trial: 1e-6 * fmean(part["elements"] / part["tat_mean"] for part in parts(trial)[first : first + EACH])


def _of_uplink(trial: dict[str, Any], scheme: str) -> float:
    """Elements per second of one of the scheme's jobs that has an equal part of the uplink."""
    whole, number = TrialSettings(**trial["settings"]), EACH * SCHEMES.index(scheme)
    job, elements = whole.each()[number], parts(trial)[number]["elements"]
    return float(elements / bounds.seconds(job, elements)) * min(1, whole.uplink_rate / len(whole.jobs) / whole.host_rate)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Throughput and fairness against the shares; and each job's throughput while some come and go."""
    figure, (rate, fair) = new_figure(2)
    for scheme in SCHEMES:
        curve(rate, run, "share", _rate(scheme), look_of(scheme), change="none")
        at = levels(run, "share")
        bound_line(rate, at, [1e-6 * _of_uplink(matching(run, share=s, change="none")[0], scheme) for s in at], look_of(scheme))
    curve(fair, run, "share", fairness, replace(look_of("atp"), label="all four jobs", colour="black", marker="o"), change="none")
    rate.set_ylabel("10⁶ elements/s of a job while it sums")
    fair.set_ylabel("Jain's index of the jobs' throughput")
    fair.set_ylim(0, 1.05)
    rate.set_ylim(bottom=0)
    for ax in (rate, fair):
        ax.set_xlabel("share of the memory that is ATP's")
    named(figure, (rate, fair))
    memory, uplink = run.record["settings"]["memory"], run.record["settings"]["uplink_rate"]
    caption = (
        f"Two jobs of ATP and two of SwitchML on one network of two racks, over an uplink of {uplink:g} Mbit/s. The switches' "
        f"memory of {memory} aggregators is shared out between ATP's table and SwitchML's pools. Dotted: an equal part of the "
        "uplink. Medians with intervals."
    )
    yield "shared_switch", caption, figure

    figure, (time,) = new_figure(1)
    for trial in matching(run, change=LATER)[:1]:
        for number, part in enumerate(parts(trial)):
            sums = [s for s in trial["steps"] if s.get("job", 0) == number and s["rank"] == 0]
            look = look_of(SCHEMES[number // EACH])
            at = [t for s in sums for t in (s["ended"] - s["tat"], s["ended"])]
            heights = [1e-6 * part["elements"] / s["tat"] for s in sums for _ in range(2)]
            line, label = ("--", f"{look.label}, comes later") if number % EACH else ("-", look.label)
            time.plot(at, heights, line, color=look.colour, label=label)
    time.set_xlabel("seconds")
    time.set_ylabel("10⁶ elements/s in a sum")
    time.set_ylim(bottom=0)
    named(figure, (time,))
    caption = "Throughput of each sum of the same four jobs with equal shares of the memory, two of which come later and leave."
    yield "come_and_go", caption, figure


def findings(run: Run) -> list[str]:
    """What either scheme's jobs have at each share, how fair that is, and what the jobs that stay have beside others."""
    sentences = not_valid(run)
    for share in levels(run, "share"):
        here = {"share": share, "change": "none"}
        own = " and ".join(f"{look_of(s).label}'s have {words(estimate(run, _rate(s), **here))}" for s in SCHEMES)
        fair = words(estimate(run, fairness, **here))
        sentences.append(f"{100 * share:g} % of the memory for ATP: {own} · 10⁶ elements/s; Jain's index {fair}.")
    for number in (0, EACH):
        beside, alone = ([_of_stays(t, number, when) for t in matching(run, change=LATER) if t["valid"]] for when in (True, False))
        if beside and alone and all((*beside, *alone)):
            label = look_of(SCHEMES[number // EACH]).label
            sentences.append(
                f"{label}'s job that stays sums {median_interval(beside).median:.2f} · 10⁶ elements/s while the others are there, "
                f"and {median_interval(alone).median:.2f} without them."
            )
    return sentences


def _of_stays(trial: dict[str, Any], number: int, beside: bool) -> float:
    """Throughput of a job that stays, of its sums beside those that come later, or of the others; 0 where there are none."""
    there = [s for s in trial["steps"] if s.get("job", 0) % EACH]
    first, last = min((s["ended"] - s["tat"] for s in there), default=0.0), max((s["ended"] for s in there), default=0.0)
    took = [
        s["tat"] for s in trial["steps"]
        if (s.get("job", 0), s["rank"]) == (number, 0) and (s["ended"] > first and s["ended"] - s["tat"] < last) is beside
    ]  # fmt: skip
    return 1e-6 * parts(trial)[number]["elements"] / fmean(took) if took else 0.0
