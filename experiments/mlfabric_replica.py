"""What a replica of the server costs: MLfabric's, whose distance is bounded, beside chain replication.

Each is measured with a server that lives, and with one that is killed so that the replica takes over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from inalab.hosts.training.pipeline import ASYNCHRONOUS
from inalab.schemes.scheme import Look
from inalab.testbed.draw.curves import bar, bound_line, estimate, look_of, matching, not_valid, ratio, values, variant_of, words
from inalab.testbed.draw.plots import COLOURS, new_figure
from inalab.testbed.measures import distances, fault_times, metric, per_update, takeover, when_applied
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Numbers, Point, SweepSettings, paired
from inalab.testbed.record.runs import Run

LOOK = look_of("mlfabric")
OUT_OF_SERVER, INTO_REPLICA = per_update(0, "up"), per_update(1, "down")
DURATION, ACCURACY, DISTANCE = metric("duration"), metric("final_accuracy", 100), metric("distance_max")  # s, %, norms
VALID = {True: 0.8, False: 0.2}  # how opaque a trial's line is


class Settings(SweepSettings):
    """One rack of eight. An update takes 57 ms on a link, and a gradient 20 ms."""

    bounds: Numbers = Field((2.0, 0.5), description="bounds on the replica's distance")
    killed_at: float = Field(4.0, gt=0, description="seconds into the training at which the server is killed, where it is")
    scheme: str = "mlfabric"
    pipeline: str = ASYNCHRONOUS
    racks: int = 1
    workers: int = 8
    host_rate: float = 10.0
    steps: int = 40
    compute_ms: float = 20.0
    evaluate_every: int = 2


QUICK: dict[str, Any] = {"seeds": 1, "steps": 16, "workers": 4, "bounds": (0.5,), "killed_at": 1.5}


def _looks(bounds: Iterable[float]) -> dict[str, Look]:
    """By way of replication: none, a bound of the distance, or a chain."""
    looks = {"none": replace(LOOK, label="no replica", colour=COLOURS[0])}
    for number, bound in enumerate(sorted(bounds, reverse=True)):
        looks[f"{bound:g}"] = variant_of(LOOK, f"distance at most {bound:g}", number)
    return looks | {"chain": replace(LOOK, label="chain replication", colour=COLOURS[2])}


def _changes(way: str) -> dict[str, Any]:
    match way:
        case "none":
            return {}
        case "chain":
            return {"mlfabric.chain": True}
    return {"mlfabric.distance": float(way)}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Each way, with a server that lives and, if it has a replica, with one that is killed."""
    points = []
    for way, look in _looks(settings.bounds).items():
        points.append(Point(look.label, {"way": way, "killed": False}, _changes(way)))
        if way != "none":
            death = {"faults": f"die s0 at {settings.killed_at:g}"}
            points.append(Point(f"{look.label}, server killed", {"way": way, "killed": True}, _changes(way) | death))
    return paired(points, settings, seed)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Distances over time, bytes on the links of both servers, and updates over time where one is killed."""
    looks = _looks(run.record["settings"]["bounds"])
    figure, (away, carried, over_time) = new_figure(3)
    _draw_distances(away, run, looks)
    _draw_bytes(carried, run, looks)
    _draw_updates(over_time, run, looks)
    handles = {look.label: away.plot([], [], color=look.colour)[0] for look in looks.values()}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4)
    caption = (
        "Left: the replica's distance from the server, as the sum of the norms of the updates that it lacks, whenever the server "
        "applies an update; dotted: the bounds. Middle: bytes on the links of both servers per update; each seed a point, medians "
        "with intervals. Right: updates that the servers have applied, where the first server is killed; dotted: "
        "when it is killed. Left and right: a line for each seed."
    )
    yield "mlfabric_replica", caption, figure


def _draw_distances(ax: Axes, run: Run, looks: dict[str, Look]) -> None:
    last = 0.0
    for way, look in looks.items():
        for trial in matching(run, way=way, killed=False):
            if found := distances(trial):
                times, away = zip(*found, strict=True)
                ax.step(times, away, where="post", color=look.colour, linewidth=0.8, alpha=VALID[trial["valid"]])
                last = max(last, times[-1])
    for bound in run.record["settings"]["bounds"]:
        bound_line(ax, (0, last), (bound, bound), looks[f"{bound:g}"])
    _from_zero(ax)
    ax.set_ylabel("distance of the replica")


def _draw_bytes(ax: Axes, run: Run, looks: dict[str, Look]) -> None:
    for number, (way, look) in enumerate(looks.items()):
        bar(ax, number - 0.2, values(run, OUT_OF_SERVER, way=way, killed=False), look)
        if way != "none":
            bar(ax, number + 0.2, values(run, INTO_REPLICA, way=way, killed=False), look, light=True)
    ax.set_xticks(range(len(looks)), [look.label for look in looks.values()], rotation=20, ha="right")
    ax.set_ylabel("tensors per update")
    ax.set_title("left bars: out of the server; right bars: into the replica")


def _draw_updates(ax: Axes, run: Run, looks: dict[str, Look]) -> None:
    for way, look in looks.items():
        for trial in matching(run, way=way, killed=True):
            times = when_applied(trial)
            count = np.arange(1, len(times) + 1)
            ax.step(times, count, where="post", color=look.colour, linewidth=0.8, alpha=VALID[trial["valid"]])
            ax.axvline(fault_times(trial, "die")[0], color=look.colour, linewidth=0.6, linestyle=":")
    _from_zero(ax)
    ax.set_ylabel("updates applied")


def _from_zero(ax: Axes) -> None:
    ax.set_xlabel("seconds")
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)


def findings(run: Run) -> list[str]:
    """What each way of replication costs, and what happens when the server is killed."""
    sentences, looks = not_valid(run), _looks(run.record["settings"]["bounds"])
    for way, look in looks.items():
        here: dict[str, Any] = {"way": way, "killed": False}
        cost = f"{words(estimate(run, OUT_OF_SERVER, **here))} tensors per update leave the server"
        if way != "none":
            longer = ratio(run, DURATION, here, {"way": "none", "killed": False})
            cost += (
                f", and {words(estimate(run, INTO_REPLICA, **here))} come to the replica, whose largest distance is "
                f"{words(estimate(run, DISTANCE, **here), '.3f')}; the training takes {words(longer)} times as long as without one"
            )
        sentences.append(f"{look.label.capitalize()}: {cost}.")
    for way in list(looks)[1:]:
        here, lives = {"way": way, "killed": True}, {"way": way, "killed": False}
        accurate, otherwise = (words(estimate(run, ACCURACY, **which), ".1f") for which in (here, lives))
        sentences.append(
            f"{looks[way].label.capitalize()}, server killed: the replica applies a new update after "
            f"{words(estimate(run, takeover, **here))} s; the largest distance is {words(estimate(run, DISTANCE, **here), '.3f')}, "
            f"and the accuracy at the end {accurate} %, where it is {otherwise} % if the server lives."
        )
    return sentences
