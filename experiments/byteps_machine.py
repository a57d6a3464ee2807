"""Time and bytes of an all-reduce of machines with several GPUs, by what happens inside a machine (BytePS's second half).

CPU-assisted aggregation is for machines with PCIe alone, reduction over NVLink for those that have it; beside them, what
frameworks do. All rates are a thousandth of the paper's: PCIe 105, NVLink 1,200, a network interface 100 Gbit/s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.schemes import oracle
from inalab.schemes.byteps_machine import SCHEME
from inalab.schemes.scheme import Look
from inalab.testbed.draw.curves import bar, estimate, levels, matching, not_valid, values
from inalab.testbed.draw.plots import WIDTH, named, new_figure
from inalab.testbed.measures import metric
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.plan.sweep import Integers, Point, SweepSettings, paired
from inalab.testbed.record.runs import Run
from inalab.testbed.theory import bounds
from inalab.topologies.plan import Hop, LinkPlan, NetworkPlan

RUNS_ON = "virtual"
FRAMEWORKS = "local-ring"
SHAPES = {"PCIe": ("pcie-machines", "cpu-assisted"), "NVLink": ("nvlink-machines", "nvlink-reduce")}  # and the strategy for each
LOOKS = {
    FRAMEWORKS: Look("local ring, one sender", "#7d8597"),
    "cpu-assisted": Look("CPU-assisted", "#5e3c58"),
    "nvlink-reduce": Look("NVLink, another GPU sends", "#4f9d69"),
}
KINDS = {"GPU": "gpu", "PCIe switch": "pcie", "NIC": "nic"}  # of links, and what they are called in `kind_of`
MS = metric("tat_median", 1000)


class Settings(SweepSettings):
    """Two machines."""

    gpus: Integers = Field((4, 8), description="numbers of GPUs in a machine")
    seeds: int = 1
    scheme: str = "byteps-machine"
    racks: int = 2
    host_rate: float = 105.0
    uplink_rate: float = 100.0
    workload: str = "tensor-200000"
    steps: int = 3
    compute_ms: float = 60.0
    costs: str = "none"


QUICK: dict[str, Any] = {"gpus": (4,), "steps": 2, "workload": "tensor-50000"}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Each shape with what frameworks do, and with the strategy for it."""
    points = []
    for shape, (topology, strategy) in SHAPES.items():
        rates = {"pcie_rate": 105.0} | ({"nvlink_rate": 1200.0} if shape == "NVLink" else {})
        for gpus in settings.gpus:
            for its in (FRAMEWORKS, strategy):
                factors = {"shape": shape, "gpus": gpus, "strategy": its}
                changes = {"topology": topology, "workers": gpus, "byteps-machine.strategy": its} | rates
                points.append(Point(f"{shape}, {gpus} GPUs, {its}", factors, changes))
    return paired(points, settings, seed)


def kind_of(link: LinkPlan, plan: NetworkPlan) -> str:
    """What a link of a machine is: a GPU's, a PCIe switch's to the CPU, the network interface's; empty for others."""
    if link.upper in {root.name for root in plan.roots}:
        return "nic"
    if link.lower.startswith("pcie"):
        return "pcie"
    return "gpu" if link.upper.startswith("pcie") else ""


def busiest(trial: dict[str, Any], kind: str) -> float:
    """Bytes that the busiest link of a kind carried in a sum, in its busier direction, in tensors and in frames."""
    plan, metrics = TrialSettings(**trial["settings"]).plan(), trial["metrics"]
    counted = [*metrics["uplink_bytes"], *metrics["worker_bytes"]]
    links = [*plan.links_above(plan.switches), *plan.links_above(host.name for host in plan.hosts)]
    most = max((max(its.values()) for link, its in zip(links, counted, strict=False) if kind_of(link, plan) == kind), default=0)
    return float(most / (4 * metrics["elements"] * trial["settings"]["steps"]))


def by_gpu(trial: dict[str, Any]) -> float:
    """The busiest GPU's."""
    return busiest(trial, "gpu")


def by_pcie(trial: dict[str, Any]) -> float:
    """The busiest PCIe switch's."""
    return busiest(trial, "pcie")


def by_formula(trial: dict[str, Any], kind: str) -> float:
    """The same by the strategy's schedule, without headers (hosts/machines)."""
    settings = TrialSettings(**trial["settings"])
    plan = settings.plan()
    steps = oracle.load(SCHEME.on(plan, settings.scheme_settings()), plan, 1.0)
    kinds = {link.number: kind_of(link, plan) for link in plan.links}
    carried = sum(steps, Counter[Hop]())
    return max((size for (link, _), size in carried.items() if kinds[link] == kind), default=0.0)


def _points(run: Run) -> list[tuple[str, int, Sequence[str]]]:
    return [(shape, gpus, (FRAMEWORKS, own)) for shape, (_, own) in SHAPES.items() for gpus in levels(run, "gpus", shape=shape)]


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Times, and bytes over each kind of link."""
    figure, axes = new_figure(1, 1 + len(KINDS), (WIDTH, 1.9 * (1 + len(KINDS)) + 0.4))
    points = _points(run)
    for i, (shape, gpus, strategies) in enumerate(points):
        for j, strategy in enumerate(strategies):
            its, at = {"shape": shape, "gpus": gpus, "strategy": strategy}, i + 0.4 * (j - 0.5)
            found, look = matching(run, **its), LOOKS[strategy]
            if not found:
                continue
            bar(axes[0], at, values(run, MS, **its), look)
            axes[0].plot([at - 0.18, at + 0.18], [1000 * bounds.of_trial(found[0])] * 2, "k:", linewidth=1.4)
            for ax, kind in zip(axes[1:], KINDS.values(), strict=True):
                bar(ax, at, values(run, lambda t, kind=kind: busiest(t, kind), **its), look)  # type: ignore[misc]
                ax.plot([at - 0.18, at + 0.18], [by_formula(found[0], kind)] * 2, "k:", linewidth=1.4)
    for look in LOOKS.values():
        axes[0].plot([], [], "s", color=look.colour, markersize=8, label=look.label)
    axes[0].plot([], [], "k:", linewidth=1.4, label="the schedule's bound; bytes without headers")
    axes[0].set_ylabel("TAT (ms)")
    for ax, name in zip(axes[1:], KINDS, strict=True):
        ax.set_ylabel(f"tensors over the\nbusiest {name}'s link")
    for ax in axes:
        ax.set_xticks(range(len(points)), [f"{shape}, {gpus} GPUs" for shape, gpus, _ in points])
    named(figure, axes)
    machines = run.record["settings"]["racks"]
    caption = (
        f"Tensor aggregation time of {machines} machines, and what the busiest link of each kind carries in its busier direction, "
        "in tensors: a GPU's link, one between a PCIe switch and the CPU, a network interface's. Dotted: the schedule's bound, and "
        "its traffic without headers. Acknowledgments wait behind data."
    )
    yield "byteps_machine", caption, figure


def findings(run: Run) -> list[str]:
    """How much faster the strategy for a shape is, and what it does to the links."""
    sentences = not_valid(run)
    for shape, gpus, (frameworks, own) in _points(run):
        its = {"shape": shape, "gpus": gpus}
        one, other = (estimate(run, MS, **its, strategy=strategy) for strategy in (frameworks, own))
        if not (one.n and other.n):
            continue
        faster = (
            f"{other.median:.0f} ms with {LOOKS[own].label}, and {one.median / other.median:.2f} times as long with a local ring"
        )
        links = (
            f"a {name}'s {_median(run, kind, **its, strategy=own):.2f} tensors instead of "
            f"{_median(run, kind, **its, strategy=frameworks):.2f}"
            for name, kind in KINDS.items()
        )
        sentences.append(f"{shape}, {gpus} GPUs: {faster}. The busiest link carries: {'; '.join(links)}.")
    return sentences


def _median(run: Run, kind: str, **factors: Any) -> float:
    return float(estimate(run, lambda trial: busiest(trial, kind), **factors).median)
