"""What is exported for P4-utils: links, addresses, commands, and refusals in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inalab.schemes.scheme import Admitted
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.trial.configuration import switch_commands
from inalab.topologies.p4app import export, named
from inalab.topologies.plan import NetworkPlan
from inalab.topologies.racks import Racks
from inalab.topologies.topology import TopologyError

PROGRAM = Path("p4/switchml.p4")


def admitted(plan: NetworkPlan) -> list[Admitted]:
    return TrialSettings(racks=plan.topology.racks, workers=plan.topology.workers).admitted(plan)


def exported(tmp_path: Path, racks: Racks, target: str = "bmv2") -> tuple[NetworkPlan, dict, Path]:
    plan = NetworkPlan(racks)
    commands = {name: switch_commands(plan, name, admitted(plan), None, 1) for name in plan.switches}
    path = export(plan, commands, PROGRAM, {"K": "256"}, target, tmp_path / "app")
    return plan, json.loads(path.read_text()), path.parent


def test_every_link_host_and_command_of_the_plan_is_there(tmp_path: Path) -> None:
    plan, app, folder = exported(tmp_path, Racks(3, 2, 25.0, None))
    links = {(lower, upper): given for lower, upper, given in app["topology"]["links"]}
    assert len(links) == len(plan.links) == 9
    for link in plan.links:
        given = links[link.lower, link.upper]
        assert (given["port1"], given["port2"], given.get("bw")) == (link.lower_port, link.upper_port, link.rate)
    assert links["h5", "tor2"]["addr1"] == plan.hosts[5].station.mac
    assert links["h5", "tor2"]["params1"] == {"ip": "10.0.2.2/16"}
    assert sorted(app["topology"]["hosts"]) == sorted(host.name for host in plan.hosts)
    for name, switch in app["topology"]["switches"].items():
        assert Path(switch["cli_input"]).read_text().splitlines() == switch_commands(plan, name, admitted(plan), None, 1)
    assert Path(app["p4_src"]).read_text() == PROGRAM.read_text()
    assert (folder / "p4" / "include" / "switchml" / "pool.p4").exists()
    assert app["compiler_module"]["options"]["opts"].endswith("-DK=256")


def test_only_the_classes_differ_between_targets(tmp_path: Path) -> None:
    _, real, _ = exported(tmp_path / "real", Racks(1, 2))
    _, ours, _ = exported(tmp_path / "ours", Racks(1, 2), "embedded")
    assert set(ours) - set(real) == {"switch_node", "client_module"}
    assert real["topology"]["links"] == ours["topology"]["links"]
    assert "object_name" not in real["compiler_module"]
    assert ours["compiler_module"]["object_name"] == "EmbeddedCompiler"


def test_topologies_have_names_or_shapes() -> None:
    assert named("rack") == Racks(1, 4)
    assert named("3x2") == Racks(3, 2)
    for wrong in ("ring", "2y2", "x", "2x", "-1x2", "²x2"):
        with pytest.raises(TopologyError, match="choose rack, racks, or RACKSxWORKERS"):
            named(wrong)


def test_nothing_is_written_over(tmp_path: Path) -> None:
    exported(tmp_path, Racks(1, 1))
    with pytest.raises(TopologyError, match=r"app is in the way: name another folder with --out"):
        exported(tmp_path, Racks(1, 1))
