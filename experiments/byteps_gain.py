"""Training throughput of BytePS over all-reduce and over parameter servers, from one machine on, and what each half of it gains.

Machines of eight V100 without NVLink, with PCIe of 105 and a network interface of 100 Gbit/s, and published models. Around a local
ring stand a ring between machines (all-reduce) or services on all machines (parameter servers); BytePS aggregates with the CPU's
help, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.hosts.training.architectures import catalog
from inalab.hosts.training.pipeline import BARRIER
from inalab.schemes.scheme import Look
from inalab.testbed.draw.curves import curve, estimate, levels, not_valid
from inalab.testbed.draw.plots import named, new_figure
from inalab.testbed.measures import efficiency
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Point, Sizes, SweepSettings, Words, paired
from inalab.testbed.record.runs import Run
from inalab.testbed.theory import reported

RUNS_ON = "simulated"
ALL_REDUCE, SERVERS, BYTEPS = "all-reduce", "parameter servers", "BytePS"
SYSTEMS: dict[str, tuple[Look, dict[str, Any]]] = {
    ALL_REDUCE: (Look("all-reduce: rings inside and between", "#d1762d", "s"), {"strategy": "local-ring", "between": "ring"}),
    SERVERS: (Look("servers: a local ring, one server", "#b0413e", "p"), {"strategy": "local-ring", "between": "server"}),
    "local": (Look("a local ring, services", "#7d8597", "X"), {"strategy": "local-ring", "between": "services"}),
    BYTEPS: (Look("BytePS: CPU-assisted, services", "#5e3c58", "o"), {"strategy": "cpu-assisted", "between": "services"}),
}


class Settings(SweepSettings):
    """Batches as in the paper's figures, but for BERT-large's, which is small enough to show the network."""

    sizes: Sizes = Field((2, 4, 8), description="numbers of machines")
    models: Words = Field(("vgg16:96", "resnet50:256", "bert-large:4"), description="models, each with a GPU's batch")
    part: int = Field(1, ge=1, description="one element in so many, over links that are slower by as much")
    seeds: int = 1
    scheme: str = "byteps-machine"
    topology: str = "pcie-machines"
    gpu: str | None = "v100"
    workers: int = 8
    host_rate: float = 105_000.0
    pcie_rate: float = 105_000.0
    uplink_rate: float = 100_000.0
    workload: str = "vgg16"
    pipeline: str = BARRIER
    steps: int = 3
    costs: str = "dpdk"


QUICK: dict[str, Any] = {"sizes": (2,), "models": ("bert-large:4",)}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Every model with every system, on every number of machines."""
    points = []
    for words in settings.models:
        model, _, batch = words.partition(":")
        name = catalog.divided(model, settings.part)
        rates = {key: getattr(settings, key) / settings.part for key in ("host_rate", "pcie_rate", "uplink_rate")}
        its = rates | {"workload": name, "batch": batch or None}
        for machines in settings.sizes:
            for system, (_, changes) in SYSTEMS.items():
                factors = {"model": words, "machines": machines, "system": system}
                own = {f"byteps-machine.{key}": value for key, value in changes.items()}
                points.append(Point(f"{words}, {machines} machines, {system}", factors, its | own | {"racks": machines}))
    return paired(points, settings, seed)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """A panel for each model."""
    models = list(run.record["settings"]["models"])
    figure, axes = new_figure(len(models), sharey=True)
    for ax, model in zip(axes, models, strict=True):
        for system, (look, _) in SYSTEMS.items():
            curve(ax, run, "machines", efficiency, look, model=model, system=system)
        ax.axhline(1, color="black", linewidth=0.8)
        ax.set_title(f"{model.partition(':')[0]}, batch {model.partition(':')[2]}")
        ax.set_xlabel("machines")
        at = levels(run, "machines")
        ax.set_xticks(at, [str(n) for n in at])
    axes[0].set_ylim(bottom=0)
    axes[0].set_ylabel("throughput over compute alone")
    named(figure, axes)
    caption = (
        "Training throughput of machines with eight V100 without NVLink, over that of GPUs that never wait for sums, simulated at "
        "PCIe's and the network's real rates. Layers overlap with sums."
    )
    yield "byteps_gain", caption, figure


def findings(run: Run) -> list[str]:
    """BytePS over the others, beside what was reported, and the share of each half."""
    sentences, most = not_valid(run), dict.fromkeys((ALL_REDUCE, SERVERS), 0.0)
    for model in run.record["settings"]["models"]:
        for machines in levels(run, "machines", model=model):
            found = {s: estimate(run, efficiency, model=model, machines=machines, system=s) for s in SYSTEMS}
            if not all(its.n for its in found.values()):
                continue
            gain = {s: found[BYTEPS].median / its.median for s, its in found.items()}
            most = {s: max(least, gain[s]) for s, least in most.items()}
            shares = ", ".join(f"{s} {its.median:.2f}" for s, its in found.items())
            sentences.append(
                f"{model}, {machines} machines: of compute alone {shares}. BytePS has {gain[ALL_REDUCE]:.2f} times the throughput "
                f"of all-reduce and {gain[SERVERS]:.2f} times that of one server; the inside of machines gives {gain['local']:.2f}."
            )
    for system, gained in most.items():
        paper = f"reported: up to {1 + reported.BYTEPS[system]:.2f}"
        sentences.append(f"At most {gained:.2f} times the throughput of {system}; {paper}.")
    return sentences
