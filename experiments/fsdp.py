"""Training as PyTorch splits it, over SwitchML, a ring and Gloo: DistributedDataParallel, FSDP2 and its hybrid form.

DistributedDataParallel sums whole gradients. FSDP2 gathers each layer's parameters twice a step and scatters the sums of its
gradients; its hybrid form does so within racks, and sums the scattered parts between them. Switches add a gradient on its way, so
a sum passes a worker's link once in each direction. They have nothing to add where parameters are gathered: these have to come to
every worker by any scheme. So sharded training has less to gain from them.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.hosts.training.pipeline import DDP, FSDP2, HSDP, OF_TORCH
from inalab.testbed.draw.curves import Tolerance, estimate, look_of, matching, not_valid, ratio, words
from inalab.testbed.draw.plots import named, new_figure
from inalab.testbed.measures import Measure, Record, metric
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError
from inalab.testbed.plan.sweep import Point, SweepSettings, Words, paired
from inalab.testbed.record.runs import Run

RUNS_ON = "embedded"  # PyTorch runs in real time only
SCHEMES = ("switchml", "ring", "gloo")  # whose closed forms are here
LABELS = {DDP: "DDP", FSDP2: "FSDP2", HSDP: "hybrid FSDP2"}
STEP = metric("step_median", 1000)  # ms
OF_TURN = Tolerance(0.85, 1.25)  # of a step's closed form


class Settings(SweepSettings):
    """Two racks of four, which train a network of four layers."""

    schemes: Words = Field(SCHEMES, description="what is compared")
    pipelines: Words = Field(OF_TORCH, description="how the training is split: ddp, fsdp2, hsdp")
    k: int = 256
    workload: str = "digits-mlp-deep"
    steps: int = 10
    compute_ms: float = 250.0
    evaluate_every: int = 1000


QUICK: dict[str, Any] = {"schemes": ("switchml", "gloo"), "pipelines": (DDP, FSDP2), "seeds": 1, "steps": 4}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Every way to split the training over every scheme. SettingsError for pipelines that are not PyTorch's, and other schemes."""
    for name, chosen, known in (("pipelines", settings.pipelines, OF_TORCH), ("schemes", settings.schemes, SCHEMES)):
        if others := [one for one in chosen if one not in known]:
            raise SettingsError(f"{name} has {others[0]}: choose from {', '.join(known)}")
    points = [
        Point(f"{pipeline}, {scheme}", {"pipeline": pipeline, "scheme": scheme}, {"pipeline": pipeline, "scheme": scheme})
        for pipeline in settings.pipelines
        for scheme in settings.schemes
    ]
    return paired(points, settings, seed)


def carried(direction: str) -> Measure:
    """Bytes `up` from a worker or `down` to it in a step, headers included, in sizes of the model: the mean over workers."""

    def measure(trial: Record) -> float:
        metrics, steps = trial["metrics"], trial["settings"]["steps"]
        return float(fmean(link[direction] for link in metrics["worker_bytes"]) / steps / (4 * metrics["elements"]))

    return measure


def _calls(trial: Record, gathers: float = 2) -> list[tuple[float, float]]:
    """What a step's collectives take up and down a worker's link, all of a kind together, in models and without headers.

    A switch gives a sum to whom it belongs, and multicasts what is gathered. A ring's blocks go once round to be summed and once
    to be gathered. Gloo sums whole tensors where it has to scatter sums, and so does a ring here; what is to be gathered it leaves
    to Gloo.
    """
    s = trial["settings"]
    racks, switches = int(s["racks"]), s["scheme"] == "switchml"
    n = racks * int(s["workers"])

    def gathered(members: int) -> tuple[float, float]:
        others = (members - 1) / members
        return (1 / members if switches and members > 1 else others), others

    def summed(members: int) -> float:
        return float(members > 1) if switches else 2 * (members - 1) / members

    def scattered(members: int) -> tuple[float, float]:
        return summed(members), (1 / members if switches and members > 1 else summed(members))

    if s["pipeline"] == DDP:
        return [(summed(n), summed(n))]
    members = n if s["pipeline"] == FSDP2 else n // racks
    up, down = gathered(members)
    between = summed(racks) / members if s["pipeline"] == HSDP else 0.0
    return [(gathers * up, gathers * down), scattered(members), (between, between)]


def in_closed_form(trial: Record, direction: str) -> float:
    """What `carried` is without headers. To be evaluated, the model is gathered once more."""
    s = trial["settings"]
    calls = _calls(trial, 2 + -(-s["steps"] // s["evaluate_every"]) / s["steps"])
    return sum(call[direction == "down"] for call in calls)


def in_turn(trial: Record) -> float:
    """ms of a step that computes, and then calls one collective after another, without headers.

    All workers of a rack sum their parts with the other racks at once, over one uplink.
    """
    s = trial["settings"]
    *within, between = [max(call) for call in _calls(trial)]
    if s["pipeline"] == HSDP:
        between *= max(1.0, s["workers"] * s["host_rate"] / s["uplink_rate"])
    return float(s["compute_ms"] + 1000 * (sum(within) + between) * _seconds(trial))


def _seconds(trial: Record) -> float:
    """That a model takes over a worker's link."""
    return float(32e-6 * trial["metrics"]["elements"] / trial["settings"]["host_rate"])


def least(trial: Record) -> float:
    """ms that the busier direction of a worker's link is busy in a step, with what it carried."""
    return 1000 * max(carried("up")(trial), carried("down")(trial)) * _seconds(trial)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Time of a step, and bytes on a worker's link, for each way to split the training."""
    figure, (time, link) = new_figure(2)
    schemes, pipelines = run.record["settings"]["schemes"], run.record["settings"]["pipelines"]
    width = 0.8 / len(schemes)
    for j, scheme in enumerate(schemes):
        look = look_of(scheme)
        time.bar(0, 0, color=look.colour, label=look.label)
        for i, pipeline in enumerate(pipelines):
            at, here = i + (j - (len(schemes) - 1) / 2) * width, {"pipeline": pipeline, "scheme": scheme}
            _bar(time, run, STEP, at, 0.9 * width, {"color": look.colour}, here)
            if not any(trial["valid"] for trial in matching(run, **here)):
                time.annotate("no valid trial", (at, 0), rotation=90, ha="center", va="bottom")
            _bar(link, run, carried("up"), at - 0.22 * width, 0.42 * width, {"color": look.colour}, here)
            _bar(link, run, carried("down"), at + 0.22 * width, 0.42 * width, {"color": look.colour, "alpha": 0.5}, here)
            for trial in matching(run, **here)[:1]:
                time.plot([at - 0.45 * width, at + 0.45 * width], [in_turn(trial)] * 2, "k-", linewidth=1.5)
                time.plot([at - 0.45 * width, at + 0.45 * width], [least(trial)] * 2, "k:", linewidth=1.6)
                for shift, direction in ((-0.22, "up"), (0.22, "down")):
                    middle, form = at + shift * width, in_closed_form(trial, direction)
                    link.plot([middle - 0.2 * width, middle + 0.2 * width], [form] * 2, "k-", linewidth=1.5)
    time.plot([], [], "k-", linewidth=1.5, label="closed forms, without headers")
    time.plot([], [], "k:", linewidth=1.6, label="the link's bytes at its rate")
    time.set_ylabel("step in ms")
    link.set_ylabel("models over a worker's link\nin a step (left: up, pale: down)")
    for ax in (time, link):
        ax.set_xticks(range(len(pipelines)), [LABELS[pipeline] for pipeline in pipelines])
        ax.set_ylim(bottom=0)
    named(figure, (time,))
    caption = (
        "The time of a step, and what a worker's link carries in a step in sizes of the model: medians with intervals. Lines: a "
        "step that computes, and then calls one collective after another; and what these carry. Dotted: how long the busier "
        "direction of the link takes for what it carried."
    )
    yield "fsdp", caption, figure


def _bar(ax: Any, run: Run, measure: Measure, at: float, width: float, look: dict[str, Any], here: dict[str, Any]) -> None:
    found = estimate(run, measure, **here)
    if found.n:
        ax.bar(at, found.median, width, **look)
    if found.known:
        ax.errorbar(at, found.median, [[found.median - found.low], [found.high - found.median]], color="black", capsize=2)


def findings(run: Run) -> list[str]:
    """Each step's time beside Gloo's and its closed form, and its bytes beside theirs."""
    sentences = not_valid(run)
    schemes = run.record["settings"]["schemes"]
    for pipeline in run.record["settings"]["pipelines"]:
        for scheme in schemes:
            here = {"pipeline": pipeline, "scheme": scheme}
            time, turn = estimate(run, STEP, **here), estimate(run, lambda t: STEP(t) / in_turn(t), **here)
            up, down = (estimate(run, _over_form(direction), **here) for direction in ("up", "down"))
            sentence = f"{LABELS[pipeline]} over {look_of(scheme).label}: {words(time, '.0f')} ms a step"
            if scheme != "gloo" and "gloo" in schemes:
                slower = ratio(run, STEP, {"pipeline": pipeline, "scheme": "gloo"}, here)
                sentence += f", and Gloo takes {words(slower)} times as long"
            near = OF_TURN.words(turn, "of the closed form of one call after another")
            over = f"{words(up)} times its closed form up, and {words(down)} times down"
            sentences.append(f"{sentence}. That is {near}. The link carried {over}.")
    return sentences


def _over_form(direction: str) -> Measure:
    return lambda trial: carried(direction)(trial) / in_closed_form(trial, direction)
