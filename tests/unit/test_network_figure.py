"""A network as `inalab network` draws it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib.text import Annotation

from inalab.testbed.draw.network import network_figure
from inalab.testbed.plan.settings import SettingsError, TrialSettings
from inalab.testbed.record.runs import ROOT
from tests.command_line import inalab


def texts(**changes: Any) -> list[str]:
    (axes,) = network_figure(TrialSettings(**changes)).axes
    return [child.get_text() for child in axes.get_children() if isinstance(child, Annotation)]


@pytest.mark.parametrize(
    "changes",
    [{}, {"racks": 1}, {"topology": "dumbbell"}, {"topology": "leaf-spine"}, {"topology": "pods", "racks": 4}, {"scheme": "ps"}],
)
def test_every_node_and_link_is_drawn_once(changes: dict[str, Any]) -> None:
    settings = TrialSettings(**changes, workers=3, loss=0.01)
    plan = settings.plan()
    (axes,) = network_figure(settings).axes
    wording = [child.get_text().split("\n")[0] for child in axes.get_children() if isinstance(child, Annotation)]
    names = [host.name for host in plan.everyone] + list(plan.switches)
    assert sorted(text for text in wording if text in names) == sorted(names)
    lines = [line for line in axes.lines if line.get_alpha() != 0]
    assert len([line for line in lines if len(line.get_xdata()) == 2]) == len(plan.links)  # type: ignore[arg-type]
    assert len([line for line in lines if line.get_marker() == "x"]) == len(plan.links)
    ends = {tuple(line.get_xydata().flatten()) for line in lines}  # type: ignore[union-attr]
    assert len(ends) == len(lines)


def test_rates_losses_and_stragglers_are_told() -> None:
    assert not [text for text in texts() if "loses" in text or "comput" in text]
    assert texts(host_rate=20, uplink_rate=5).count("20 Mbit/s") == texts(host_rate=20, uplink_rate=5).count("5 Mbit/s") == 2
    mixed = texts(topology="mixed-rates", workers=4)
    assert (mixed.count("5 Mbit/s"), mixed.count("10 Mbit/s")) == (1, 4)  # h0's; h1's, h4's, and two uplinks'
    wording = texts(loss=0.001, straggler="slow", straggler_factor=2, straggler_rank=7)
    assert {"× loses 0.1 % of the packets, each way", "computes 2× as long"} <= set(wording)
    assert "every worker's compute times are pareto" in texts(straggler="pareto")


def test_the_picture_of_the_readme_is_what_the_command_draws(tmp_path: Path) -> None:
    words = ["--set", "loss=0.01", "--set", "straggler=slow", "--set", "straggler.rank=5"]
    done = inalab("network", *words, "--out", str(tmp_path / "network.svg"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "network.svg").read_text() == (ROOT / "docs" / "network.svg").read_text()


def test_what_cannot_be_drawn_is_one_sentence(tmp_path: Path) -> None:
    done = inalab("network", "--out", str(tmp_path / "network.txt"))
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "name that ends in .svg, .pdf or .png" in done.stderr
    with pytest.raises(SettingsError, match="the network has 128 hosts: up to 64 can be drawn"):
        network_figure(TrialSettings(racks=8, workers=16))
