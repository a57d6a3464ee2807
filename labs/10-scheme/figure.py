"""Lab 10's figure: how fast an all-reduce is with more workers, beside SwitchML and a ring on the same links."""

from collections.abc import Mapping
from typing import Any

from check import LARGE, YOURS, facts, took, trial
from matplotlib.figure import Figure

from inalab.schemes import registry
from inalab.testbed.draw.plots import new_figure
from inalab.testbed.lab.figures import beside
from inalab.testbed.lab.lab import Plot
from inalab.testbed.lab.workbench import Workbench

SIZES = (2, 4, 8)
OTHERS = ("switchml", "ring")
COLOUR = "#8c3a8c"  # no other scheme's


def measure(bench: Workbench) -> dict[str, Any]:
    """Thousands of elements that are summed in a second, by the student's scheme and by others."""

    def rates(scheme: str) -> list[float]:
        return [LARGE / took(trial(bench, workers=n, scheme=scheme)) / 1000 for n in SIZES]

    return {"label": facts(bench).label, "rate": rates(YOURS), "others": {name: rates(name) for name in OTHERS}}


def draw(yours: Mapping[str, Any], reference: Mapping[str, Any]) -> Figure:
    figure, (ax,) = new_figure(size=(7.0, 4.2))
    beside(ax, SIZES, yours["rate"], reference["rate"], COLOUR, str(yours["label"]))
    for name, rates in yours["others"].items():
        look = registry.find(name).look
        ax.plot(SIZES, rates, color=look.colour, marker=look.marker, linestyle="--", label=look.label)
    ax.set(xlabel="workers", ylabel="thousand elements summed a second", ylim=(0, None), xticks=SIZES)
    ax.set_title("Your scheme and two others on links of 10 Mbit/s")
    ax.legend(frameon=False)
    return figure


plot = Plot(measure, draw, noisy=True)
