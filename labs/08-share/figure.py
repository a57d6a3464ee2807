"""Lab 8's figure: three jobs against the switch's memory."""

from collections.abc import Mapping
from typing import Any

from check import run, three_jobs
from matplotlib.figure import Figure

from inalab.testbed.draw.plots import COLOURS, new_figure, readable
from inalab.testbed.lab.figures import beside
from inalab.testbed.lab.lab import Plot
from inalab.testbed.lab.workbench import Workbench

AGGREGATORS = (1, 4, 16, 64, 256)
CHUNKS = 60


def measure(bench: Workbench) -> dict[str, Any]:
    """For each job and memory: packets that its server gets for a chunk, and milliseconds until its workers have the sum."""
    packets: dict[str, list[float]] = {"1": [], "2": [], "3": []}
    times: dict[str, list[float]] = {"1": [], "2": [], "3": []}
    for aggregators in AGGREGATORS:
        network, _ = run(bench, three_jobs(CHUNKS), aggregators)
        for job, found in packets.items():
            arrived = sum(d.packets for d in network.directions.values() if d.target == f"j{job}server")
            found.append(arrived / CHUNKS)
            times[job].append(max(t for name, t in network.finished.items() if name.startswith(f"j{job}w")) / 1000)
    return {"packets": packets, "times": times}


def draw(yours: Mapping[str, Any], reference: Mapping[str, Any]) -> Figure:
    figure, axes = new_figure(columns=2, size=(10.0, 4.2))
    for ax, what, label in zip(
        axes, ("packets", "times"), ("packets to the server, a chunk", "time until the job is done (ms)"), strict=True
    ):
        for (job, workers), colour in zip((("1", 3), ("2", 2), ("3", 4)), COLOURS, strict=False):
            beside(ax, AGGREGATORS, yours[what][job], reference[what][job], colour, f"job {job}, {workers} workers")
        ax.set(xscale="log", xlabel="aggregators in the switch", ylabel=label, ylim=(0, None), xticks=AGGREGATORS)
        readable(ax.xaxis)
        ax.minorticks_off()
    axes[0].legend(frameon=False, fontsize=8)
    figure.suptitle("Three jobs at once: with little memory, the servers add what the switch cannot")
    return figure


plot = Plot(measure, draw)
