"""The network that trials run on, in one line."""

from __future__ import annotations

from typing import Any

import pytest

from inalab.testbed.plan import experiment
from inalab.testbed.plan.described import described
from inalab.testbed.plan.settings import TrialSettings, make_settings


@pytest.mark.parametrize(
    ("changes", "wording"),
    [
        ([{}], "8 workers in 2 racks of 4, switchml, 10 Mbit/s, no loss"),
        ([{"loss": 0.01}], "8 workers in 2 racks of 4, switchml, 10 Mbit/s, loss 1 %"),
        ([{"racks": 1, "workers": 1}], "1 worker in 1 rack, switchml, 10 Mbit/s, no loss"),
        ([{"loss": 0.001}, {"scheme": "atp"}, {"loss": 0.02}], "8 workers in 2 racks of 4, switchml and atp, 10 Mbit/s, loss 0, 0.1 and 2 %"),
        ([{"workers": n, "racks": 1} for n in (2, 4, 8, 16)], "2 to 16 workers in 1 rack, switchml, 10 Mbit/s, no loss"),
        ([{"racks": n, "host_rate": 5 * n} for n in (1, 2)], "4 and 8 workers in 1 and 2 racks, switchml, 5 and 10 Mbit/s, no loss"),
        ([{"scheme": name} for name in ("ring", "atp", "tree", "gloo")], "8 workers in 2 racks of 4, 4 schemes, 10 Mbit/s, no loss"),
        (
            [{"jobs": '[{"workers": 1}, {"workers": [2, 1], "scheme": "ring"}]'}],
            "5 workers of 2 jobs in 2 racks, switchml and ring, 10 Mbit/s, no loss",
        ),
        ([{"jobs": '[{"workers": [3, 1]}, {"workers": [3, 1]}]'}], "8 workers of 2 jobs in 2 racks, switchml, 10 Mbit/s, no loss"),
        ([{"topology": "mixed-rates"}], "8 workers in 2 racks of 4, switchml, 5 and 10 Mbit/s, no loss"),
        ([{"uplink_rate": 1.5}], "8 workers in 2 racks of 4, switchml, 10 Mbit/s (uplinks 1.5), no loss"),
        ([{"jobs": '[{"workers": 1}, {"workers": 1}]'}, {}], "4 and 8 workers of 1 and 2 jobs in 2 racks, switchml, 10 Mbit/s, no loss"),
    ],
)  # fmt: skip
def test_what_trials_have_in_common_and_how_they_differ(changes: list[dict[str, Any]], wording: str) -> None:
    assert described([make_settings(TrialSettings, its) for its in changes]) == wording


def test_every_experiment_is_described_with_all_its_workers() -> None:
    for name in experiment.names():
        chosen = experiment.load(name)
        trials = [trial.settings for trial in chosen.trials(chosen.Settings(), 1)]
        sizes = [sum(job.size for job in one.plans(one.plan())) for one in trials if one.racks * one.workers <= 64]
        wording = described(trials)
        assert not sizes or min(sizes) == int(wording.replace(" and ", " ").replace(",", " ").split()[0]), (name, wording)
