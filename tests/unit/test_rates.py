"""Rates that change while a trial runs: what the seed draws, schedules in files, what links then carry, and what is refused."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from inalab.hosts.mlfabric.fabric import Fabric
from inalab.testbed.campaign.identity import foreign_files
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.rates import Markov, checked
from inalab.testbed.plan.settings import SettingsError, TrialSettings, make_settings
from inalab.testbed.trial.errors import TrialError
from inalab.topologies.plan import NetworkPlan
from inalab.topologies.racks import Racks
from tests.unit.test_virtual import virtual

PLAN = NetworkPlan(Racks(2, 5, host_rate=20.0))


def test_the_seed_says_which_links_change_and_when() -> None:
    first, again, other = ([*itertools.islice(Markov(0.3, 0.25, 2.0).changes(PLAN, seed), 400)] for seed in (1, 1, 2))
    assert first == again != other
    assert len({name for _, name, _ in first}) == 3 and {name for _, name, _ in first} <= {link.name for link in PLAN.links}
    for link in {name for _, name, _ in first}:
        rates = [rate for _, name, rate in first if name == link]
        assert rates[:4] == [5.0, 20.0, 5.0, 20.0]
    times = [at for at, _, _ in first]
    assert times == sorted(times)
    assert times[-1] / len(times) == pytest.approx(2.0 / 3, rel=0.25)  # three links, each in a state for two seconds
    assert [*checked(first, PLAN.links)]


def test_states_that_are_left_at_once_are_sound() -> None:
    """Links do not change twice within a millisecond, however short the mean is."""
    for seed in range(20):
        assert len([*checked(itertools.islice(Markov(1.0, 0.5, 0.0001).changes(PLAN, seed), 1000), PLAN.links)]) == 1000


def test_links_carry_what_their_rates_allow() -> None:
    """A link of half the rate for most of the time makes sums longer; the numbers are the same."""
    its: dict[str, Any] = {"scheme": "ring", "racks": 1, "workers": 3, "steps": 8, "workload": "tensor-20000"}
    plain = virtual(**its)["metrics"]
    found = virtual(**its, changing="markov", changing_share=1.0, changing_mean=0.05)["metrics"]
    assert found["rate_changes"] > 10
    assert 1.1 * plain["duration"] < found["duration"] < 2 * plain["duration"]
    assert found["model_digest"] == plain["model_digest"]


SCHEDULE = """
class Steps:
    def changes(self, plan, seed):
        for second in range(1, 100):
            yield second / 20, "h0-tor0", {rates}[second % 2]

RATES = Steps()
"""


def test_a_schedule_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "steps.py"
    path.write_text(SCHEDULE.format(rates="(2, 10)"))
    settings = make_settings(TrialSettings, {"changing": str(path)})
    assert foreign_files(Trial("steps", {}, settings, 1)).keys() == {str(path)}
    assert virtual(scheme="ring", racks=1, workers=2, steps=6, changing=str(path))["metrics"]["rate_changes"] > 3


@pytest.mark.parametrize(
    ("text", "wording"),
    [
        (SCHEDULE.format(rates="(0, 10)"), r"the schedule of rates has \(0.1, 'h0-tor0', 0\)"),
        ("class A:\n    def changes(self, plan, seed):\n        yield 0.01, 'nowhere', 5\nRATES = A()", "a link has a rate"),
        ("class A:\n    def changes(self, plan, seed):\n        while True:\n            yield 0.01, 'h0-tor0', 5\nRATES = A()", "0.001 s apart for a link"),
        ("class A:\n    def changes(self, plan, seed):\n        yield 5\nRATES = A()", r"has 5: give \(seconds, link, Mbit/s\)"),
        ("class A:\n    def changes(self, plan, seed):\n        yield 1 / 0\nRATES = A()", "ZeroDivisionError"),
        ("class A:\n    def changes(self, plan, seed):\n        return 1 / 0\nRATES = A()", "ZeroDivisionError"),
        ("class A:\n    def changes(self):\n        return []\nRATES = A()", "TypeError"),
        ("class A:\n    def changes(self, plan, seed):\n        yield exit(3)\nRATES = A()", "SystemExit"),
    ],
)  # fmt: skip
def test_a_schedule_that_cannot_be_ends_the_trial_with_a_sentence(text: str, wording: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(text)
    with pytest.raises(TrialError, match=wording) as caught:
        virtual(scheme="ring", racks=1, workers=2, steps=6, changing=str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "wording"),
    [
        ({"changing": "magic"}, "changing is magic: choose one of no, markov, or a file"),
        ({"changing": "./nosuch.py"}, "there is no file ./nosuch.py"),
        ({"changing": "markov", "faults": "rate h0 5 at 1"}, r"rates are changing \(markov\) already"),
        ({"changing": "markov", "changing_factor": 0.005}, "a link would have less than 0.1 Mbit/s"),
        ({"changing_share": 2}, "setting changing_share is 2"),
    ],
)
def test_rates_that_cannot_be_are_one_sentence(changes: dict[str, Any], wording: str) -> None:
    with pytest.raises(SettingsError, match=wording):
        make_settings(TrialSettings, changes).check()


def test_the_network_interfaces_of_machines_change() -> None:
    plan = make_settings(TrialSettings, {"topology": "nvlink-machines", "workers": 4, "scheme": "byteps-machine"}).plan()
    changing = {name for _, name, _ in itertools.islice(Markov(1.0, 0.5, 1.0).changes(plan, 1), 20)}
    assert changing == {"pcie0-0-network", "pcie1-0-network"}


def test_what_changing_rates_resend_is_not_needless() -> None:
    its: dict[str, Any] = {"scheme": "ring", "racks": 1, "workers": 2, "steps": 6, "workload": "tensor-60000"}
    found = virtual(**its, changing="markov", changing_factor=0.02, changing_mean=0.5, changing_share=1.0)
    assert found["valid"], found["problems"]


def test_rates_are_learnt_only_where_they_are_to_be() -> None:
    for learns in (True, False):
        fabric = Fabric([0, 0], [8.0, 8.0], [0.0], learns)
        fabric.learn(fabric.path(0, 1), 8.0, 4.0)
        assert (fabric.rates[0, "up"] < 8.0) is learns
