"""The embedded switch against what real BMv2 did with the same programs, commands and packets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from switches.embedded.build import build
from switches.embedded.offline import OfflineSwitch
from tests.scenarios import SCENARIOS

GOLDEN = Path("tests/golden")


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_same_packets_as_bmv2(name: str) -> None:
    scenario = SCENARIOS[name]
    recorded = json.loads((GOLDEN / f"{name}.json").read_text())["packets"]
    assert [(r["port"], r["data"]) for r in recorded] == [(port, data.hex()) for port, data in scenario.packets]
    with OfflineSwitch(build(scenario.program, scenario.defines)) as switch:
        for line in scenario.commands:
            switch.command(line)
        for number, (port, data) in enumerate(scenario.packets):
            out = sorted(((p, d.hex()) for p, d in switch.send(port, data)), key=lambda item: item[0])
            assert out == [tuple(o) for o in recorded[number]["out"]], f"packet {number} of {name}: {data.hex()}"
