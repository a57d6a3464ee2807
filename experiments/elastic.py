"""What the death of a worker costs, and its return: training goes on without it, and it gets the model from the others.

A worker is killed at a moment that is drawn, and begins again later. Each change costs what was under way, and the time to notice
it, to agree on where all are, to admit the new members, and to have what all are to have. Gloo does what torchrun has scripts do:
all processes begin again, from a checkpoint. Beside it, the root restarts and admits no jobs for a while: the job waits, or falls
back to a ring.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from inalab.testbed.draw.curves import by_name, estimate, look_of, matching, not_valid, ratio, variant_of, words
from inalab.testbed.draw.plots import COLOURS, by_step, mark_faults, named, new_figure
from inalab.testbed.measures import Measure, Record, metric
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError, TrialSettings
from inalab.testbed.plan.sweep import Point, SweepSettings, Words, paired
from inalab.testbed.record.metrics import number as recorded
from inalab.testbed.record.runs import Run
from inalab.testbed.record.statistics import median_interval
from inalab.testbed.theory import bounds

NONE, WORKER, WAITS, FALLS_BACK = "none", "worker", "root, the job waits", "root, falls back to a ring"
PARTS = {"repeated": COLOURS[7], "notice": COLOURS[1], "agree": COLOURS[0], "reconfigure": COLOURS[2], "heal": COLOURS[5]}
CHANGES = ("death", "return")
DURATION = metric("duration")
SPREAD = 1.0  # seconds in which a fault is drawn


class Settings(SweepSettings):
    """Two racks of four. A step takes 50 ms of compute, and a sum some 60 ms over SwitchML."""

    schemes: Words = Field(("switchml", "atp", "ring"), description="whose jobs lose a worker")
    checkpointed: Words = Field(("gloo",), description="likewise, and all begin again from a checkpoint")
    every: int = Field(5, ge=1, description="steps between their checkpoints")
    dies: float = Field(1.5, ge=0, description="seconds into the training, and up to a second more: a worker is killed")
    returns: float = Field(3.0, ge=0, description="likewise: it begins again")
    away: float = Field(1.0, gt=0, description="seconds in which the root admits no jobs, once it has restarted")
    steps: int = 50
    patience: float = 10.0


QUICK: dict[str, Any] = {
    "schemes": ("switchml", "ring"),
    "checkpointed": (),
    "seeds": 1,
    "dies": 0.2,
    "returns": 1.3,
    "steps": 25,
    "away": 0.5,
}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Each scheme with and without a death, and the first that has a program with a root that restarts.

    SettingsError where a worker would return before it dies.
    """
    if settings.returns < settings.dies + SPREAD:
        raise SettingsError(
            f"returns is {settings.returns:g}: a worker that may die until {settings.dies + SPREAD:g} s returns later"
        )
    last = f"h{settings.racks * settings.workers - 1}"
    dies, returns = (f"{at:g}..{at + SPREAD:g}" for at in (settings.dies, settings.returns))
    death = f"die {last} at {dies}; restart {last} at {returns}"
    points = []
    for scheme in (*settings.schemes, *settings.checkpointed):
        saved = {"checkpoint": settings.every} if scheme in settings.checkpointed else {}
        own = {"scheme": scheme, "elastic": True, **saved}
        points.append(Point(f"{scheme}, no fault", {"scheme": scheme, "fault": NONE}, own))
        points.append(Point(f"{scheme}, a worker dies and returns", {"scheme": scheme, "fault": WORKER}, own | {"faults": death}))
    switched = [scheme for scheme in settings.schemes if settings.changed(scheme=scheme).of_scheme().program]
    for scheme in switched[:1] if settings.racks > 1 else ():
        away = {"scheme": scheme, "elastic": True, "faults": f"restart root at {dies} for {settings.away:g}"}
        points.append(Point(f"{scheme}, the root restarts", {"scheme": scheme, "fault": WAITS}, away))
        fallback = away | {"fallback": "ring"}
        points.append(Point(f"{scheme}, the root restarts, ring", {"scheme": scheme, "fault": FALLS_BACK}, fallback))
    return paired(points, settings, seed)


def parts(trial: Record, number: int) -> dict[str, float]:
    """Seconds that a change of members has taken, by its parts; NaN where there was none.

    What is repeated is what was under way: from the end of the last step that counts until the fault. A step that ends although the
    fault is known costs nothing.
    """
    changes, faults = trial["metrics"].get("changes", []), trial["metrics"].get("faults", [])
    if len(changes) <= number or len(faults) <= number:
        return dict.fromkeys(PARTS, float("nan"))
    change, fault = changes[number], faults[number]["begun"]
    done = max((step["ended"] for step in trial["steps"] if step["step"] < change["steps"]), default=0.0)
    noticed = max(change["noticed"], done)
    return {
        "repeated": max(0.0, fault - done),
        "notice": noticed - max(fault, done),
        "agree": change["agreed"] - noticed,
        "reconfigure": change["installed"] - change["agreed"],
        "heal": change.get("joined", float("nan")) - change["installed"],
    }


def _part(number: int, name: str) -> Measure:
    return lambda trial: 1000 * parts(trial, number)[name]


def least_heal(trial: Record) -> float:
    """Seconds that a sum as large as a model and its momenta takes at least, by the trial's scheme."""
    return bounds.seconds(TrialSettings(**trial["settings"]), 2 * trial["metrics"]["elements"])


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Loss over time, samples per second, and the parts of what a change costs."""
    schemes = list(dict.fromkeys(t["factors"]["scheme"] for t in run.finished if t["factors"]["fault"] == WORKER))
    figure, (loss, speed, cost) = new_figure(3)
    for scheme in schemes:
        trial = next(t for t in matching(run, scheme=scheme, fault=WORKER))
        _over_time(loss, speed, trial, look_of(scheme).label, look_of(scheme).colour)
    for number, how in enumerate((WAITS, FALLS_BACK)):
        for trial in matching(run, fault=how)[:1]:
            look = variant_of(look_of(trial["factors"]["scheme"]), how, number)
            _over_time(None, speed, trial, look.label, look.colour, look.line)
    loss.set_ylabel("training loss, mean of members")
    speed.set_ylabel("samples a second")
    for ax in (loss, speed):
        ax.set_xlabel("s")
        ax.set_ylim(bottom=0)
        ax.set_xlim(left=0)
    _costs(cost, run, schemes)
    named(figure, (speed, cost))
    caption = (
        "Left: training loss of the first seed; dotted: a worker dies, and returns. Middle: samples that steps have used, over the "
        "time until their ends. Right: the parts of what each change costs, medians; lines: the least time of a sum of a model's "
        "and its momenta's size, which is how a newcomer gets them. Gloo's processes begin again from a checkpoint: what is "
        "repeated is all since that, and what heals is the group that meets anew."
    )
    yield "elastic", caption, figure


def _over_time(loss: Axes | None, speed: Axes, trial: Record, label: str, colour: str, line: str = "-") -> None:
    """A trial's loss and speed at the end of each step, and its faults."""
    ends = by_step(trial, lambda of_step: max(r["ended"] for r in of_step))
    mean = by_step(trial, lambda of_step: float(np.mean([recorded(r.get("train_loss")) for r in of_step])))
    sizes = by_step(trial, lambda of_step: len(of_step[0].get("members", of_step)))
    batch = TrialSettings(**trial["settings"]).samples()
    if loss is not None:
        loss.plot(ends, mean, line, color=colour, label=label, linewidth=1.2)
        mark_faults(loss, trial, colour)
    speed.plot(
        ends, batch * sizes / np.diff(ends, prepend=0.0), line, color=colour, label=label, linewidth=1.0, drawstyle="steps-pre"
    )


def checkpointed(run: Run, scheme: str) -> bool:
    """Whether the scheme's jobs begin again from a checkpoint."""
    return any(trial["settings"].get("checkpoint") for trial in matching(run, scheme=scheme, fault=WORKER))


def _costs(ax: Axes, run: Run, schemes: list[str]) -> None:
    """Bars of the parts, for each scheme's death and return."""
    labels = []
    for row, (scheme, number) in enumerate((scheme, number) for scheme in schemes for number in range(len(CHANGES))):
        left = 0.0
        for name, colour in PARTS.items():
            found = estimate(run, _part(number, name), scheme=scheme, fault=WORKER)
            width = found.median if found.n else 0.0
            ax.barh(row, width, left=left, color=colour, label=name if row == 0 else None)
            left += width
        if number == 1 and not checkpointed(run, scheme):
            least = [1000 * least_heal(t) for t in matching(run, scheme=scheme, fault=WORKER)]
            ax.plot([left, left - least[0]], [row + 0.48] * 2, "k-", linewidth=1.4, solid_capstyle="butt")
        labels.append(f"{look_of(scheme).label}: {CHANGES[number]}")
    ax.set_yticks(range(len(labels)), labels)
    ax.invert_yaxis()
    ax.set_xlabel("ms that a change costs")


def findings(run: Run) -> list[str]:
    """What a death and a return cost, and what falling back saves."""
    sentences = not_valid(run)
    for name, measured in by_name(run).items():
        scheme, fault = measured[0]["factors"]["scheme"], measured[0]["factors"]["fault"]
        if fault == NONE:
            continue
        longer = ratio(run, DURATION, {"scheme": scheme, "fault": fault}, {"scheme": scheme, "fault": NONE})
        sentence = f"{name}: training takes {words(longer)} times as long as without a fault"
        if fault == WORKER:
            here = [t for t in measured if t["valid"]]
            for number, what in enumerate(CHANGES):
                cost = median_interval([s for t in here if np.isfinite(s := 1000 * sum(parts(t, number).values()))])
                sentence += f"; the {what} costs {words(cost, '.0f')} ms"
            if measured[0]["settings"].get("checkpoint"):
                sentences.append(sentence + ".")
                continue
            healing = median_interval([s / least_heal(t) for t in here if np.isfinite(s := parts(t, 1)["heal"])])
            sentence += f", and the newcomer has the model in {words(healing)} times what such a sum takes at least"
        sentences.append(sentence + ".")
    return sentences
