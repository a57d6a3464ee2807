"""Training throughput of real models at full size, over each scheme, as a share of what their GPUs compute without a network.

Layers, their sizes and their multiply-adds are the models'; the time of a step is one that was measured on a GPU
(hosts/training/architectures). A layer's sum begins when its gradient is there, as in DistributedDataParallel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.hosts.training.architectures import catalog
from inalab.hosts.training.layers import outline
from inalab.hosts.training.pipeline import BARRIER, LAYERED
from inalab.hosts.training.workloads import find
from inalab.testbed.draw.curves import bar, estimate, look_of, not_valid, ratio, values
from inalab.testbed.draw.plots import WIDTH, named, new_figure
from inalab.testbed.measures import efficiency
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError, TrialSettings
from inalab.testbed.plan.sweep import Numbers, Point, SweepSettings, Words, paired
from inalab.testbed.record.runs import Run
from inalab.testbed.theory import pipelines, reported

RUNS_ON = "simulated"
NCCL = "NCCL, RDMA"
BATCHES = {"bert-large": 4, "gpt2": 4}  # of each GPU; all others have `batch`


class Settings(SweepSettings):
    """One rack of eight, as the papers' testbeds; links of 10 and 100 Gbit/s."""

    models: Words = Field(tuple(catalog.ARCHITECTURES), description="architectures")
    gpus: Words = Field(("p100", "v100"), description="the GPUs whose times they take, where those are known")
    rates: Numbers = Field((10_000.0, 100_000.0), description="Mbit/s of the links")
    schemes: Words = Field(("switchml", "atp", "byteps", "ring", "ps"), description="what is compared")
    part: int = Field(
        1, ge=1, description="one element in so many, and links slower by as much: the same shares, with fewer packets"
    )
    batch: int | None = 64
    seeds: int = 1
    racks: int = 1
    workers: int = 8
    k: int = 256
    slots: int = 256
    pipeline: str = BARRIER
    steps: int = 3
    costs: str = "dpdk"


QUICK: dict[str, Any] = {"models": ("vgg16", "resnet50"), "gpus": ("v100",), "schemes": ("switchml", "ring"), "part": 64}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Every model on every GPU on which its time is known, over every scheme, at every rate."""
    points = []
    for gpu, model in _pairs(settings.models, settings.gpus):
        name = catalog.divided(model, settings.part)
        for rate in settings.rates:
            its = {"gpu": gpu, "workload": name, "batch": _batch(settings, gpu, model), "host_rate": rate / settings.part}
            for scheme in settings.schemes:
                factors = {"gpu": gpu, "model": model, "rate": rate, "scheme": scheme}
                points.append(Point(f"{model} on {gpu}, {rate / 1000:g} Gbit/s, {scheme}", factors, its | {"scheme": scheme}))
    return paired(points, settings, seed)


def _pairs(models: Iterable[str], gpus: Iterable[str]) -> list[tuple[str, str]]:
    """GPUs and models whose time on them is known. SettingsError where there are none, or a model is no architecture."""
    found, models = [], list(models)
    for model in models:
        if (architecture := catalog.find(model)) is None:
            raise SettingsError(f"model {model} is no architecture: choose some of {', '.join(catalog.ARCHITECTURES)}")
        found += [(gpu, model) for gpu in gpus if gpu in architecture.timings]
    if not found:
        raise SettingsError(f"no time of {', '.join(models)} is known on gpus {', '.join(gpus)}")
    return sorted(found, key=lambda pair: (list(gpus).index(pair[0]), models.index(pair[1])))


def _batch(settings: Settings, gpu: str, model: str) -> int | None:
    architecture = catalog.find(model)
    assert architecture is not None
    stated = architecture.timings[gpu].batch is not None
    return BATCHES.get(model.partition("/")[0], settings.batch) if stated else None


def with_nccl(trial: dict[str, Any]) -> float:
    """Likewise, where each sum took what was reported of NCCL at 100 Gbit/s, in proportion to the rate."""
    settings = TrialSettings(**trial["settings"])
    size = settings.racks * settings.workers
    ate = 1e9 * reported.ATE[NCCL].get(size, math.nan) * settings.host_rate / reported.ATE_RATE
    forward, backward, _ = pipelines.of_settings(settings)
    takes = [elements / ate for elements, _ in outline(find(settings.workload), settings.pipeline in LAYERED)]
    return settings.compute_ms / 1000 / pipelines.period(settings.pipeline, forward, backward, takes, urgent=False)


def _shown(run: Run) -> list[tuple[str, str]]:
    settings = run.record["settings"]
    return _pairs(settings["models"], settings["gpus"])


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """A panel for each rate and GPU: groups of bars by model."""
    schemes, pairs = list(run.record["settings"]["schemes"]), _shown(run)
    panels = [(rate, gpu) for rate in run.record["settings"]["rates"] for gpu in dict.fromkeys(gpu for gpu, _ in pairs)]
    figure, axes = new_figure(1, len(panels), (WIDTH, 1.9 * len(panels) + 0.4))
    width = 0.85 / len(schemes)
    for ax, (rate, gpu) in zip(axes, panels, strict=True):
        shown = [model for its, model in pairs if its == gpu]
        for i, model in enumerate(shown):
            for j, scheme in enumerate(schemes):
                found = values(run, efficiency, gpu=gpu, model=model, rate=rate, scheme=scheme)
                bar(ax, i + (j - (len(schemes) - 1) / 2) * width, found, look_of(scheme), width=width)
            nccl = estimate(run, with_nccl, gpu=gpu, model=model, rate=rate, scheme=schemes[0])
            if nccl.n and math.isfinite(nccl.median):
                ax.plot([i - 0.45, i + 0.45], [nccl.median] * 2, "k:", linewidth=1.4)
        ax.axhline(1, color="black", linewidth=0.8)
        ax.set_xticks(range(len(shown)), shown)
        ax.set_ylabel(f"of compute alone,\n{rate / 1000:g} Gbit/s, {gpu.upper()}")
    for scheme in schemes:
        axes[0].plot([], [], "s", color=look_of(scheme).colour, markersize=8, label=look_of(scheme).label)
    axes[0].plot([], [], "k:", linewidth=1.4, label="NCCL's ATE/s, as reported")
    named(figure, axes)
    settings = run.record["settings"]
    workers = settings["racks"] * settings["workers"]
    caption = (
        f"Training throughput of {workers} workers, over that of GPUs that never wait for the network. Steps take what was "
        "measured on one GPU, in proportion to the batch, however small; layers overlap with sums. Dotted: what a step takes where "
        "each sum takes what was reported of NCCL over RDMA."
    )
    yield "models", caption, figure


def findings(run: Run) -> list[str]:
    """SwitchML over a ring and over what was reported of NCCL, and the largest gain at the paper's rate beside the paper's."""
    sentences, most = not_valid(run), (0.0, "")
    for rate in run.record["settings"]["rates"]:
        for gpu, model in _shown(run):
            its = {"gpu": gpu, "model": model, "rate": rate}
            gain = ratio(run, efficiency, its | {"scheme": "switchml"}, its | {"scheme": "ring"})
            if not gain.n:
                continue
            where = f"{model} on {gpu}, {rate / 1000:g} Gbit/s"
            nccl = estimate(run, with_nccl, **its, scheme="ring")
            over = estimate(run, efficiency, **its, scheme="switchml").median / nccl.median
            found = {scheme: estimate(run, efficiency, **its, scheme=scheme) for scheme in run.record["settings"]["schemes"]}
            shares = ", ".join(f"{look_of(scheme).label} {share.median:.2f}" for scheme, share in found.items() if share.n)
            gains = (
                f"SwitchML has {gain.median:.2f} times a ring's throughput, and {over:.2f} times that with NCCL's reported ATE/s"
            )
            sentences.append(f"{where}: of compute alone {shares}. {gains}.")
            if rate == reported.ATE_RATE:
                most = max(most, (over, where))
    if most[1]:
        gained = (
            f"At {reported.ATE_RATE / 1000:g} Gbit/s SwitchML gains at most {most[0]:.2f} over NCCL's reported ATE/s ({most[1]})"
        )
        sentences.append(f"{gained}: {most[0] / reported.SPEEDUP:.2f} of the {reported.SPEEDUP} of the paper.")
    return sentences
