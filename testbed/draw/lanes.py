"""The timeline of a step: when each layer computes and when its sum is under way, a lane each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from inalab.testbed.draw.plots import WIDTH, new_figure
from inalab.testbed.record.runs import Run

MOST = 9  # trials that are shown
COMPUTE, BACKWARD, SUM = "#9db7d5", "#5f86b3", "#d1762d"
RANK = 0  # whose steps are shown
CAPTION = (
    "Two steps of worker 0 in the middle of each trial's first seed: a layer's forward pass and backward pass above, from when its "
    "sum begins until it is over below. The first layer is at the top. Dotted: a step begins"
)


def lanes(run: Run) -> Iterator[tuple[str, str, Figure]]:
    """The figure, where trials have layers."""
    shown = list({t["name"]: t for t in reversed(run.finished) if "layers" in t["steps"][0]}.values())[::-1][:MOST]
    if not shown:
        return
    columns = min(len(shown), 3)
    rows = -(-len(shown) // columns)
    figure, axes = new_figure(columns, rows, (WIDTH, 0.9 + 2.2 * rows))
    for ax, trial in zip(axes, shown, strict=False):
        _draw(ax, trial)
    for ax in axes[len(shown) :]:
        ax.set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    yield "layers", CAPTION, figure


def _draw(ax: Axes, trial: dict[str, Any]) -> None:
    own = [r for r in trial["steps"] if r["rank"] == RANK and r.get("job", 0) == 0]
    middle = max(len(own) // 2 - 1, 0)
    steps = own[middle : middle + 2]
    start, layers = steps[0]["begun"], len(steps[0]["layers"])
    for step in steps:
        times = 1000 * (np.array(step["layers"]) - start)
        begins, forward, released, summed = times.T
        # the backward pass goes from the last layer to the first, each from where the one behind it ended
        from_behind = np.append(released[1:], forward[-1])
        at = np.arange(layers)
        for left, right, offset, colour, label in (
            (begins, forward, -0.2, COMPUTE, "forward pass"),
            (from_behind, released, -0.2, BACKWARD, "backward pass"),
            (released, summed, 0.2, SUM, "sum"),
        ):
            ax.barh(at + offset, right - left, 0.38, left, color=colour, label=label if step is steps[0] else None)
        ax.axvline(1000 * (step["begun"] - start), color="black", linestyle=":", linewidth=1)
    ax.set_yticks(range(layers), [f"{number + 1}" for number in range(layers)])
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("ms")
    ax.set_ylabel("layer")
    ax.set_title(trial["name"] + ("" if trial["valid"] else " (not valid)"))
