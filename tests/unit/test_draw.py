"""What is handed to the axes: error bars, points, places, lanes and shade, of records that are made up."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from inalab.schemes import registry
from inalab.testbed.draw import simulated
from inalab.testbed.draw.curves import bar, curve, in_order, look_of, variant_of
from inalab.testbed.draw.lanes import lanes
from inalab.testbed.draw.plots import COLOURS, _apart, named, new_figure
from inalab.testbed.measures import metric
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.record.runs import Run
from inalab.testbed.simulator.validation import Measured
from tests.runs import invalid, record, trial

TAT = metric("tat_median")


@pytest.fixture
def ax() -> Axes:
    return new_figure()[1][0]


def error_bars(ax: Axes) -> list[tuple[float, float, float]]:
    """Place, lower and upper end of each error bar."""
    lines = [line for container in ax.containers if hasattr(container, "has_yerr") for line in container.lines[2]]
    return [(float(low[0]), float(low[1]), float(high[1])) for line in lines for low, high in line.get_segments()]


def points(ax: Axes) -> list[tuple[float, float]]:
    """Places and heights of the middles of error bars."""
    return [
        (float(x), float(y)) for c in ax.containers if hasattr(c, "has_yerr") for x, y in zip(*c.lines[0].get_data(), strict=True)
    ]


def of_points(**tats: list[float]) -> Run:
    """A trial for each seed at each point; less than nothing: as much, and not valid."""
    entries = [
        trial(name, seed, tat=abs(tat)) | {"factors": {"p": name, "q": "same"}}
        for name, its in tats.items()
        for seed, tat in enumerate(its)
    ]
    marked = [invalid(t, "slow") if tats[t["name"]][t["seed"]] < 0 else t for t in entries]
    return Run(Path("nowhere"), record(), marked)


def test_error_bars_reach_from_the_lower_to_the_upper_bound(ax: Axes) -> None:
    """Of three values those are the least and the greatest."""
    run = of_points(a=[1.0, 2.0, 10.0], b=[5.0, 6.0, 6.5, -99.0], c=[7.0, 9.0])
    curve(ax, run, "p", TAT, look_of("ring"), in_order(["b", "a", "c"], 0.25), q="same")
    assert points(ax) == [(1.25, 2.0), (0.25, 6.0), (2.25, 8.0)]
    assert error_bars(ax) == [(1.25, 1.0, 10.0), (0.25, 5.0, 6.5), (2.25, 8.0, 8.0)]
    crosses = [(list(line.get_xdata()), list(line.get_ydata())) for line in ax.lines if line.get_marker() == "x"]
    assert [cross for cross in crosses if cross[0]] == [([0.25], [99.0])]
    dots = [(list(line.get_xdata()), list(line.get_ydata())) for line in ax.lines if line.get_marker() == "."]
    assert dots == [([1.25] * 3, [1.0, 2.0, 10.0]), ([0.25] * 3, [5.0, 6.0, 6.5]), ([2.25] * 2, [7.0, 9.0])]


def test_a_bars_error_reaches_from_the_lower_to_the_upper_bound(ax: Axes) -> None:
    for at, found in enumerate(([1.0, 2.0, 10.0], [3.0, 4.0], [])):
        bar(ax, at, found, look_of("ring"))
    assert [(patch.get_x() + patch.get_width() / 2, patch.get_height()) for patch in ax.patches] == [(0.0, 2.0), (1.0, 3.5)]
    assert error_bars(ax) == [(0.0, 1.0, 10.0)]


# --- lanes of layers


def layered(name: str, seed: int, late: float = 0.0) -> dict[str, Any]:
    """Four steps of 10 s on two layers; forward 1 and 2 s, backward 1 and 2 s, sums of 2 s, but for the front layer's in other steps than 1."""

    def step(n: int, rank: int) -> dict[str, Any]:
        at = 10.0 * n + 0.5 + 5.0 * rank
        layers = [[at, at + 1, at + 6, at + 8 + late + abs(n - 1)], [at + 1, at + 3, at + 5, at + 7]]
        return {"step": n, "rank": rank, "begun": at, "layers": layers}

    return trial(name, seed) | {"steps": [step(n, rank) for n in range(4) for rank in (1, 0)]}


def test_lanes_are_of_each_names_first_trial_and_two_steps_in_its_middle() -> None:
    entries = [trial("no layers"), layered("a", 1), layered("a", 2, 1.0), invalid(layered("b", 1), "slow")]
    ((name, _, figure),) = lanes(Run(Path("nowhere"), record(), entries))
    assert name == "layers" and [ax.get_title() for ax in figure.axes] == ["a", "b (not valid)"]
    ax = figure.axes[0]
    boxes = [(p.get_x(), p.get_x() + p.get_width(), p.get_y() + p.get_height() / 2) for p in ax.patches]
    forward, backward, sums = boxes[0:2], boxes[2:4], boxes[4:6]
    assert forward == pytest.approx(np.array([(0, 1000, -0.2), (1000, 3000, 0.8)]))
    assert backward == pytest.approx(np.array([(5000, 6000, -0.2), (3000, 5000, 0.8)]))
    assert sums == pytest.approx(np.array([(6000, 8000, 0.2), (5000, 7000, 1.2)]))
    assert boxes[6] == pytest.approx((10_000, 11_000, -0.2)) and len(boxes) == 12
    assert [line.get_xdata()[0] for line in ax.lines] == pytest.approx([0, 10_000])
    assert [text.get_text() for text in ax.get_yticklabels()] == ["1", "2"]


# --- measured points among simulated curves


def measured(median: float, low: float, high: float, scheme: str = "switchml", **changes: Any) -> Measured:
    own = {"racks": 1, "workers": 8, "workload": "tensor-20000", "scheme": scheme}
    return Measured(scheme, "a point", False, (1, 2, 3), median, low, high, TrialSettings(**{**own, **changes}).resolved())


@pytest.fixture
def run() -> Run:
    return Run(Path("nowhere"), record(settings=TrialSettings(racks=1, workload="tensor-20000").resolved()))


def test_measured_rates_are_those_of_one_rack_with_the_schemes_usual_settings(
    ax: Axes, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [
        {"racks": 2},
        {"loss": 0.1},
        {"k": 256},
        {"host_rate": 20.0},
        {"scaling": 1e6},
        {"scheme": "ring"},
        {"jobs": [{}, {}]},
    ]
    found = [measured(0.1, 0.05, 0.2), *(measured(1.0, 1.0, 1.0, **{"scheme": "switchml", **other}) for other in others)]
    monkeypatch.setattr(simulated, "measured", lambda: found)
    simulated.draw_measured(ax, run, "switchml")
    assert points(ax) == [(8.0, pytest.approx(0.2))]  # 20,000 elements in 0.1 s, in millions
    assert error_bars(ax) == [pytest.approx((8.0, 0.1, 0.4))]


def test_measured_losses_are_over_the_same_point_without_loss(ax: Axes, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        measured(0.2, 0.2, 0.2, workers=4), measured(0.1, 0.09, 0.11), measured(0.15, 0.12, 0.3, loss=0.01),
        measured(0.4, 0.4, 0.4, loss=0.1), measured(0.9, 0.9, 0.9, loss=0.01, workers=2), measured(0.1, 0.1, 0.1, "atp"),
    ]  # fmt: skip
    monkeypatch.setattr(simulated, "measured", lambda: found)
    assert simulated.draw_measured_losses(ax, run, 0.01, "switchml", "black") == 8
    assert points(ax) == [(8.0, pytest.approx(1.5))]
    assert error_bars(ax) == [pytest.approx((8.0, 1.2, 3.0))]
    assert simulated.draw_measured_losses(ax, run, 0.5, "switchml", "black") == 1


def test_measured_times_stand_where_the_very_settings_are_simulated(ax: Axes, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated, "measured", lambda: [measured(0.1, 0.05, 0.3), measured(0.2, 0.2, 0.2, workers=4)])
    for x, workers, costs in ((3, 8, "none"), (5, 16, "embedded"), (7, 4, "none")):
        settings = TrialSettings(racks=1, workers=workers, workload="tensor-20000", costs=costs).resolved()
        run.trials.append(trial(str(x)) | {"settings": settings, "factors": {"x": x, "way": "odd" if x == 7 else "even"}})
    assert simulated.draw_alike(ax, run, "x", 1000.0, "black", way="even") == 3
    assert points(ax) == [(3.0, pytest.approx(100.0))] and error_bars(ax) == [pytest.approx((3.0, 50.0, 300.0))]
    assert simulated.draw_alike(ax, run, "x", 1000.0, "black", way="neither") == 0


@pytest.mark.parametrize(("most", "span"), [(8, (128**0.5, 76.8)), (64, None), (0, (1.6, 76.8))])
def test_shade_begins_between_the_last_measured_point_and_the_next(
    most: int, span: tuple[float, float] | None, ax: Axes, run: Run
) -> None:
    run.trials += [trial(str(n)) | {"factors": {"workers": n}} for n in (2, 8, 16, 64)]
    simulated.shade(ax, run, most)
    spans = [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in ax.patches]
    assert spans == ([pytest.approx(span)] if span else [])


def names_at_ends(ax: Axes) -> dict[str, float]:
    """What is written beside the axes, and how high."""
    return {note.get_text(): note.xyann[1] for note in ax.texts}


def test_few_series_are_named_at_their_ends_in_the_order_of_their_lines() -> None:
    figure, (first, last) = new_figure(2)
    for ax in (first, last):
        for height in (1.0, 1.01, 5.0, float("nan")):
            ax.plot([1, 2], [3.0, height] if np.isfinite(height) else [2.0, height], label=f"to {height:g}")
    named(figure, (first, last))
    heights = names_at_ends(last)
    assert not figure.legends and not first.texts
    assert sorted(heights, key=heights.__getitem__) == ["to 1", "to 1.01", "to nan", "to 5"]  # the last point that there is counts
    assert np.diff(sorted(heights.values())).min() > 0.05 and min(heights.values()) > -0.2 and max(heights.values()) < 1.2


@pytest.mark.parametrize("lines", [7, 2])
def test_many_series_and_those_that_are_not_in_all_panels_are_named_below(lines: int) -> None:
    figure, (first, last) = new_figure(2)
    for number in range(lines):
        first.plot([1, 2], [1, number], label=f"line {number}")
        if lines > 6 or number:
            last.plot([1, 2], [1, number], label=f"line {number}")
    named(figure, (first, last))
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [f"line {number}" for number in range(lines)]
    assert not last.texts


def test_names_move_apart_and_keep_their_order() -> None:
    assert _apart([0.1, 0.9], 0.1) == [0.1, 0.9]
    assert _apart([0.5, 0.5], 0.1) == pytest.approx([0.45, 0.55])
    assert _apart([0.9, 0.1, 0.12], 0.1) == pytest.approx([0.9, 0.06, 0.16])
    assert _apart([], 0.1) == []


def lightness(colour: str) -> float:
    red, green, blue = to_rgb(colour)
    return 0.3 * red + 0.59 * green + 0.11 * blue


def test_settings_have_no_schemes_colour_and_neighbours_differ_in_grey() -> None:
    schemes = [registry.find(name).look.colour for name in registry.names()]
    assert len(set(schemes)) == len(schemes) and not set(schemes) & set(COLOURS)
    assert all(abs(lightness(a) - lightness(b)) > 0.3 for a, b in pairwise(COLOURS))
    for name in registry.names():
        look = registry.find(name).look
        other = variant_of(look, "another setting")
        assert (other.label, other.marker, other.line) != (look.label, look.marker, look.line) and other.colour not in schemes


def test_what_failed_its_validation_is_pale_and_says_so(ax: Axes) -> None:
    for target, scheme, label in (
        ("simulated", "gloo", "Gloo: failed validation"), ("simulated", "switchml", "SwitchML"), ("embedded", "gloo", "Gloo"),
    ):  # fmt: skip
        ax.clear()
        entry = trial("a", 1, tat=1.0) | {"factors": {"x": 1}}
        entry["settings"] = TrialSettings(scheme=scheme).resolved()
        curve(ax, Run(Path("nowhere"), record(target=target), [entry]), "x", TAT, look_of(scheme))
        (handle,), labels = ax.get_legend_handles_labels()
        assert labels == [label]
        assert (handle[0].get_alpha(), handle[0].get_linestyle()) == ((0.5, ":") if ":" in label else (1.0, "-"))
