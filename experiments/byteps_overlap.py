"""What overlap hides: the time of a step for three profiles of layers, with and without a barrier, in FIFO order and by priority.

Layers' sums begin as their gradients come, the last layer's first. With a barrier the next step waits for all of them, and their
order does not matter. Without, a layer's forward pass waits for its own sum alone, so those in front should not wait behind the
others: that is what partitions, priorities and a credit are for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from pydantic import Field

from inalab.hosts.byteps.admission import FIFO, PRIORITY
from inalab.hosts.training.pipeline import BARRIER, BLOCKING, CROSS_BARRIER
from inalab.testbed.draw.curves import Tolerance, estimate, matching, not_valid, ratio, words
from inalab.testbed.draw.plots import COLOURS, named, new_figure
from inalab.testbed.measures import PERIOD, critical_path
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Point, SweepSettings, Words, paired
from inalab.testbed.record.runs import Run

WAYS = [(BLOCKING, FIFO), *((pipeline, order) for pipeline in (BARRIER, CROSS_BARRIER) for order in (FIFO, PRIORITY))]
OF_PATH = Tolerance(0.98, 1.15)


class Settings(SweepSettings):
    """One rack of four, with BytePS on their hosts. Without overlap some 45 % of a step is communication."""

    profiles: Words = Field(("vgg-like", "resnet-like", "transformer-like"), description="workloads: layers and their times")
    racks: int = 1
    host_rate: float = 25.0
    scheme: str = "byteps"
    steps: int = 12
    compute_ms: float = 400.0


QUICK: dict[str, Any] = {"profiles": ("vgg-like",), "seeds": 1, "steps": 4}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Every profile with every pipeline, in both orders where there are several tensors."""
    points = [
        Point(
            f"{profile}, {_way(pipeline, order)}",
            {"profile": profile, "pipeline": pipeline, "order": order},
            {"workload": profile, "pipeline": pipeline, "byteps.order": order},
        )
        for profile in settings.profiles
        for pipeline, order in WAYS
    ]
    return paired(points, settings, seed)


def _way(pipeline: str, order: str) -> str:
    """Where there is one tensor there is no order to choose."""
    return pipeline if pipeline == BLOCKING else f"{pipeline}, {order}"


def _of_path(trial: dict[str, Any]) -> float:
    return PERIOD(trial) / critical_path(trial)


def _hidden(run: Run, profile: str) -> Any:
    """What cross-barrier by priority hides of what its critical path says that can be hidden, seed by seed."""
    blocking = {t["seed"]: t for t in matching(run, profile=profile, pipeline=BLOCKING) if t["valid"]}

    def measure(trial: dict[str, Any]) -> float:
        plain = blocking.get(trial["seed"])
        can_be = critical_path(plain) - critical_path(trial) if plain else 0.0
        return (PERIOD(plain) - PERIOD(trial)) / can_be if plain and can_be > 0 else float("nan")

    return estimate(run, measure, profile=profile, pipeline=CROSS_BARRIER, order=PRIORITY)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Step times in groups by profile, each with its critical path."""
    figure, (ax,) = new_figure(1)
    profiles = run.record["settings"]["profiles"]
    width = 0.8 / len(WAYS)
    for j, (pipeline, order) in enumerate(WAYS):
        for i, profile in enumerate(profiles):
            at = i + (j - (len(WAYS) - 1) / 2) * width
            here = matching(run, profile=profile, pipeline=pipeline, order=order)
            found = estimate(run, PERIOD, profile=profile, pipeline=pipeline, order=order)
            label = None if i else _way(pipeline, order)
            ax.bar(at, found.median if found.n else 0, 0.9 * width, color=COLOURS[j], alpha=0.85, label=label)
            if found.known:
                ax.errorbar(at, found.median, [[found.median - found.low], [found.high - found.median]], color="black", capsize=3)
            if here:
                ax.plot([at - 0.45 * width, at + 0.45 * width], [critical_path(here[0])] * 2, "k:", linewidth=1.6)
    ax.plot([], [], "k:", linewidth=1.6, label="critical path, most urgent first")
    ax.axhline(run.record["settings"]["compute_ms"], color="grey", linewidth=1, linestyle="--", label="compute alone")
    ax.set_xticks(np.arange(len(profiles)), profiles)
    ax.set_ylabel("a step (ms)")
    named(figure, (ax,))
    caption = (
        "The time from the beginning of a step to that of the next: medians over the steps, then over the seeds with "
        "intervals. Dotted: the least that the pipeline allows, with sums at the scheme's bound, the most urgent first."
    )
    yield "byteps_overlap", caption, figure


def findings(run: Run) -> list[str]:
    """Each step beside its critical path, what priorities gain, and how much of the communication is hidden."""
    sentences = not_valid(run)
    for profile in run.record["settings"]["profiles"]:
        for pipeline, order in WAYS:
            here = estimate(run, PERIOD, profile=profile, pipeline=pipeline, order=order)
            near = estimate(run, _of_path, profile=profile, pipeline=pipeline, order=order)
            of = "of the critical path"
            stated = f"{words(near)} {of}" if (pipeline, order) == (CROSS_BARRIER, FIFO) else OF_PATH.words(near, of)
            sentences.append(f"{profile}, {_way(pipeline, order)}: {words(here, '.0f')} ms a step, {stated}.")
        cross = {"profile": profile, "pipeline": CROSS_BARRIER}
        gain = ratio(run, PERIOD, cross | {"order": FIFO}, cross | {"order": PRIORITY})
        sentences.append(f"{profile}, cross-barrier: a step in FIFO order takes {words(gain)} times as long as one by priority.")
        hidden = words(_hidden(run, profile))
        sentences.append(f"{profile}, cross-barrier by priority: {hidden} of the time that the critical paths save over blocking.")
    return sentences
