"""Lab 6's figure: accuracy against the scaling factor, if there is only one for all blocks."""

from collections.abc import Mapping
from typing import Any

from check import trained
from matplotlib.figure import Figure

from inalab.testbed.draw.plots import COLOURS, new_figure
from inalab.testbed.lab.figures import beside
from inalab.testbed.lab.lab import Plot
from inalab.testbed.lab.workbench import Workbench

EXPONENTS = list(range(-12, 37, 4))


def measure(bench: Workbench) -> dict[str, Any]:
    return {"fixed": [trained(bench, e) for e in EXPONENTS], "block": trained(bench, None), "floats": trained(None, None)}


def draw(yours: Mapping[str, Any], reference: Mapping[str, Any]) -> Figure:
    figure, (ax,) = new_figure(size=(7.0, 4.2))
    beside(ax, EXPONENTS, yours["fixed"], reference["fixed"], COLOURS[0], "one exponent for all")
    ax.axhline(yours["block"], color=COLOURS[1], linewidth=1.4, label="an exponent for each block, yours")
    ax.axhline(yours["floats"], color="black", linewidth=0.8, linestyle=":", label="floats")
    ax.set(xlabel="exponent e: values up to 2^e", ylabel="test accuracy", ylim=(0, 1), xticks=EXPONENTS)
    ax.set_title("Too small and sums overflow, too large and gradients round to zero")
    ax.legend(frameon=False, loc="center", bbox_to_anchor=(0.44, 0.45))
    return figure


plot = Plot(measure, draw)
