"""Lab 10's figure: how fast an all-reduce is with more workers, beside the bounds of SwitchML and of a ring."""

from collections.abc import Mapping
from typing import Any

from check import HEADERS, LARGE, facts, took, trial
from matplotlib.figure import Figure

from testbed.draw.plots import COLOURS, new_figure
from testbed.lab.figures import beside
from testbed.lab.lab import Plot
from testbed.lab.workbench import Workbench

SIZES = (2, 4, 8)
RATE = 10e6  # bits a second of a worker's link
HEADERS_OF_SWITCHML = 1.33  # with 64 integers a packet


def measure(bench: Workbench) -> dict[str, Any]:
    """Thousands of elements that are summed in a second."""
    return {"label": facts(bench)["label"], "rate": [LARGE / took(trial(bench, workers=n)) / 1000 for n in SIZES]}


def bound(factor: float, headers: float) -> float:
    """Thousands of elements a second if a link carries the tensor so many times."""
    return RATE / (32 * headers * factor) / 1000


def draw(yours: Mapping[str, Any], reference: Mapping[str, Any]) -> Figure:
    figure, (ax,) = new_figure(size=(7.0, 4.2))
    beside(ax, SIZES, yours["rate"], reference["rate"], COLOURS[0], str(yours["label"]))
    ax.plot(
        SIZES,
        [bound(1, HEADERS_OF_SWITCHML)] * len(SIZES),
        color=COLOURS[1],
        linestyle=":",
        label="SwitchML at best, 64 integers a packet",
    )
    ax.plot(SIZES, [bound(2 * (n - 1) / n, HEADERS) for n in SIZES], color=COLOURS[2], linestyle=":", label="ring at best")
    ax.set(xlabel="workers", ylabel="thousand elements summed a second", ylim=(0, None), xticks=SIZES)
    ax.set_title("Your scheme on links of 10 Mbit/s")
    ax.legend(frameon=False)
    return figure


plot = Plot(measure, draw, noisy=True)
