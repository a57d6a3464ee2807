"""The stages that pieces of a tensor go through, inside machines and between them, by who sums between machines.

A piece is reduced inside the machine, goes to host memory, is summed with those of the other machines, comes back, and is
broadcast. BytePS's Summation Services, a ring, and SwitchML's switch do the part between. All rates are a thousandth of real ones:
PCIe 105, NVLink 1,200, a network interface 25 Gbit/s.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from inalab.hosts.machines.inside import PIECES
from inalab.hosts.tcp.schedules import Schedule, blocks
from inalab.schemes import registry
from inalab.schemes.of_machines import OfMachines
from inalab.testbed.draw.curves import estimate, matching, not_valid
from inalab.testbed.draw.plots import WIDTH, new_figure
from inalab.testbed.measures import metric
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.plan.sweep import Point, SweepSettings, paired
from inalab.testbed.record.runs import Run

RUNS_ON = "virtual"
SHAPES = {"PCIe": ("pcie-machines", "cpu-assisted"), "NVLink": ("nvlink-machines", "nvlink-reduce")}
SERVICES = "Summation Services"
WAYS: dict[str, dict[str, Any]] = {
    SERVICES: {"scheme": "byteps-machine", "byteps-machine.between": "services"},
    "ring": {"scheme": "byteps-machine", "byteps-machine.between": "ring"},
    "SwitchML": {"scheme": "switchml-machine"},
}
REDUCE, UP, BETWEEN, DOWN, BROADCAST = range(5)
LANES = ("reduce in the machine", "to memory", "between machines", "from memory", "broadcast in the machine")
HEIGHT = 0.84  # of a lane
MS = metric("tat_median", 1000)


class Settings(SweepSettings):
    """Four machines of four GPUs."""

    seeds: int = 1
    racks: int = 4
    workers: int = 4
    host_rate: float = 105.0
    uplink_rate: float = 25.0
    workload: str = "tensor-200000"
    steps: int = 3
    compute_ms: float = 60.0
    costs: str = "none"
    timeline: bool = True


QUICK: dict[str, Any] = {"racks": 2, "steps": 2, "workload": "tensor-50000"}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Each shape with its strategy, by who sums between machines."""
    points = []
    for shape, (topology, strategy) in SHAPES.items():
        rates = {"pcie_rate": 105.0} | ({"nvlink_rate": 1200.0} if shape == "NVLink" else {})
        for way, chosen in WAYS.items():
            changes = {"topology": topology, f"{chosen['scheme']}.strategy": strategy} | chosen | rates
            points.append(Point(f"{shape}, {way}", {"shape": shape, "between": way}, changes))
    return paired(points, settings, seed)


Bar = tuple[float, float, int, int]  # from when until when, in seconds; lane and piece


def sender(schedule: Schedule, workers: int) -> int:
    """The first GPU that gives memory something."""
    return min(m.source for step in schedule for m in step if m.source < workers <= m.destination)


def bars(trial: dict[str, Any]) -> list[Bar]:
    """When a sender's pieces were in each stage of the last sum."""
    settings = TrialSettings(**trial["settings"])
    scheme, plan = registry.find(settings.scheme), settings.plan()
    assert isinstance(scheme, OfMachines)
    schedule, workers = scheme.on(plan, settings.scheme_settings()), len(plan.hosts)
    of_piece, rank = blocks(schedule) // PIECES, sender(schedule, workers)
    noted = trial["workers"][rank]["timeline"]
    last = max(number for _, number, _, _ in noted)
    first = min(begun for begun, number, _, _ in noted if number == last)
    found: dict[tuple[int, int], list[float]] = defaultdict(list)  # by lane and piece
    gone: set[int] = set()  # pieces that have gone to memory
    for begun, number, step, took in noted:
        for m in schedule[step] if number == last else []:
            if rank not in (m.source, m.destination):
                continue
            piece = m.block // of_piece
            if m.destination >= workers:
                lane = UP
                gone.add(piece)
            elif m.source >= workers:
                lane = DOWN
            else:
                lane = BROADCAST if piece in gone else REDUCE
            found[lane, piece] += [begun - first, begun + took - first]
    for piece in gone:
        found[BETWEEN, piece] = [max(found[UP, piece]), min(found[DOWN, piece])]
    return [(min(times), max(times), lane, piece) for (lane, piece), times in sorted(found.items())]


def overlap(trial: dict[str, Any]) -> float:
    """How many stages are under way at once, on average; a GPU that waits in one counts."""
    its = bars(trial)
    return sum(end - begin for begin, end, _, _ in its) / max(end for _, end, _, _ in its)


def _draw(ax: Axes, trial: dict[str, Any]) -> None:
    colours = colormaps["viridis"](np.linspace(0.05, 0.92, PIECES))
    for begin, end, lane, piece in bars(trial):
        at = lane + HEIGHT * ((piece + 0.5) / PIECES - 0.5)
        ax.barh(at, 1000 * (end - begin), HEIGHT / PIECES, 1000 * begin, color=colours[piece])
    ax.set_yticks(range(len(LANES)), LANES)
    ax.set_ylim(len(LANES) - 0.5, -0.5)
    ax.grid(axis="y", visible=False)
    ax.set_title(trial["name"] + ("" if trial["valid"] else " (not valid)"))


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """The stages of one sum, in lanes."""
    figure, axes = new_figure(len(SHAPES), len(WAYS), (WIDTH, 2.1 * len(WAYS) + 0.4), sharex=True, sharey=True)
    grid = np.array(axes).reshape(len(WAYS), len(SHAPES))
    for column, shape in enumerate(SHAPES):
        for row, way in enumerate(WAYS):
            if shown := matching(run, shape=shape, between=way):
                _draw(grid[row, column], shown[0])
        grid[-1, column].set_xlabel("ms since the sum began")
    caption = (
        f"One sum of {run.record['settings']['racks']} machines, seen by the GPU that gives its machine's memory the first part. "
        f"Each of the {PIECES} pieces of the tensor has a row in every lane, the first one at the top. In a stage a GPU also waits "
        "for what has not come yet. Between machines a piece is from when it has gone to memory until it begins to come back."
    )
    yield "byteps_stages", caption, figure


def findings(run: Run) -> list[str]:
    """How long a sum takes, by who sums between machines, and how many stages are under way at once."""
    sentences = not_valid(run)
    for shape in SHAPES:
        for way in WAYS:
            if not (found := estimate(run, MS, shape=shape, between=way)).n:
                continue
            at_once = estimate(run, overlap, shape=shape, between=way)
            services = estimate(run, MS, shape=shape, between=SERVICES)
            compared = way != SERVICES and services.n
            beside = f", {found.median / services.median:.2f} of that by {SERVICES}" if compared else ""
            on_average = f"On average {at_once.median:.1f} stages are under way at once."
            sentences.append(f"{shape}, {way}: {found.median:.0f} ms{beside}. {on_average}")
    return sentences
