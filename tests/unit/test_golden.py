"""The embedded switch against what real BMv2 did with the same programs, commands and packets."""

from __future__ import annotations

import pytest

from inalab.switches.embedded.offline import OfflineSwitch
from inalab.switches.embedded.target import EmbeddedTarget
from tests.golden.record import names, recorded, target_of
from tests.scenarios import scenarios


@pytest.mark.parametrize("name", names())
def test_same_packets_as_bmv2(name: str) -> None:
    scenario, expected = scenarios()[name], recorded(name)
    assert [(r["port"], r["data"]) for r in expected] == [(port, data.hex()) for port, data in scenario.packets]
    target = target_of(scenario, "embedded")
    assert isinstance(target, EmbeddedTarget)
    with OfflineSwitch(target.executable) as switch:
        for line in scenario.commands:
            switch.command(line)
        for number, (port, data) in enumerate(scenario.packets):
            out = sorted([p, d.hex()] for p, d in switch.send(port, data))
            assert out == expected[number]["out"], f"packet {number} of {name}: {data.hex()}"


def test_every_scenario_has_its_recording() -> None:
    assert names() == sorted(scenarios())
