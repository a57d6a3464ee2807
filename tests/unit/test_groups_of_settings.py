"""Settings in groups: names with and without the group, and what only some topologies have."""

from __future__ import annotations

from typing import Any

import pytest

from inalab.testbed.plan.groups import GROUPS, ungrouped
from inalab.testbed.plan.settings import SettingsError, TrialSettings, make_settings, parse_overrides
from inalab.topologies.catalog import TOPOLOGIES, own_fields
from inalab.topologies.topology import Topology


@pytest.mark.parametrize(
    ("named", "plain"),
    [
        ("straggler.factor", "straggler_factor"), ("straggler.kind", "straggler"), ("loss.rate", "loss"), ("loss.burst", "burst"),
        ("faults.elastic", "elastic"), ("network.spines", "spines"), ("work.steps", "steps"), ("steps", "steps"),
        ("atp.aggregators", "atp.aggregators"), ("loss.nothing", "loss.nothing"), ("loss.steps", "loss.steps"),
    ],
)  # fmt: skip
def test_a_setting_may_have_its_groups_name(named: str, plain: str) -> None:
    assert ungrouped(named) == plain


def test_every_setting_of_a_group_is_reached_by_the_groups_name() -> None:
    for group, kind in GROUPS.items():
        for name in kind.model_fields:
            assert ungrouped(f"{group}.{name.removeprefix(f'{group}_')}") == name or name == group


def test_the_command_line_takes_both_and_a_record_has_one() -> None:
    values = parse_overrides(["straggler.kind=slow", "straggler.rank=2", "loss.rate=0.01"], TrialSettings)
    settings = make_settings(TrialSettings, values)
    assert (settings.straggler, settings.straggler_rank, settings.loss) == ("slow", 2, 0.01)
    assert "straggler.rank" not in settings.model_dump()
    with pytest.raises(SettingsError, match=r"there is no setting loss\.steps"):
        parse_overrides(["loss.steps=3"], TrialSettings)


@pytest.mark.parametrize(
    ("set_", "message"),
    [
        ({"topology": "torus"}, "there is no topology torus: choose one of racks, leaf-spine, dumbbell, mixed-rates"),
        ({"spines": 3}, "topology racks has no spines: leave it out, or choose another topology"),
        ({"topology": "leaf-spine", "slow_rate": 2}, "topology leaf-spine has no slow_rate"),
        ({"topology": "leaf-spine", "racks": 1}, "joins from 2 to 32 racks"),
        ({"topology": "dumbbell"}, "scheme switchml needs a switch above its racks"),
    ],
)
def test_what_a_topology_does_not_have_is_refused(set_: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        TrialSettings(**set_).check()


def test_all_topologies_have_their_settings() -> None:
    defaults = TrialSettings()
    for kind in TOPOLOGIES.values():
        plain: Topology = kind()
        for name in own_fields(kind):
            assert getattr(plain, name) == getattr(defaults, name)
