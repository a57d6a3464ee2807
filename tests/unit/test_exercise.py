"""topology.json and runtime JSON of an exercise, without a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inalab.switches.runtime_json import HIGHEST_PRIORITY, RuntimeJsonError, commands
from inalab.topologies.exercise import End, ExerciseError, ExerciseLink, read

HOSTS = {"h1": {"ip": "10.0.1.1/24", "mac": "08:00:00:00:01:11"}, "h2": {"ip": "10.0.2.2/24", "mac": "08:00:00:00:02:22"}}
LINKS = [["h1", "s1-p1"], ["h2", "s2-p1"], ["s1-p2", "s2-p2", "5ms", 0.5]]


def topology(folder: Path, **change: Any) -> Path:
    (folder / "s1.json").write_text(json.dumps({"bmv2_json": "build/basic.json"}))
    switches = {"s1": {"runtime_json": "s1.json"}, "s2": {"runtime_json": "s1.json", "program": "build/firewall.json"}}
    path = folder / "topology.json"
    path.write_text(json.dumps({"hosts": HOSTS, "switches": switches, "links": LINKS} | change))
    return path


def test_a_switch_runs_what_its_files_name(tmp_path: Path) -> None:
    found = read(topology(tmp_path), tmp_path)
    assert [s.program.name for s in found.switches.values()] == ["basic.p4", "firewall.p4"]
    assert found.links[2] == ExerciseLink((End("s1", 2), End("s2", 2)), 5000, 0.5)


def test_without_a_name_the_only_program_runs(tmp_path: Path) -> None:
    path = topology(tmp_path, switches={"s1": {"cpu_port": "510"}, "s2": {}})
    (tmp_path / "flows.p4").write_text("")
    found = read(path, tmp_path)
    assert [(s.program.name, s.cpu_port) for s in found.switches.values()] == [("flows.p4", 510), ("flows.p4", None)]
    (tmp_path / "other.p4").write_text("")
    with pytest.raises(ExerciseError, match="switch s1 names no program"):
        read(path, tmp_path)


@pytest.mark.parametrize(
    ("program", "run"), [("solution/firewall.p4", ["basic.p4", "solution/firewall.p4"]), ("mine.p4", ["mine.p4", "mine.p4"])]
)
def test_a_program_stands_in_for_the_one_of_its_name_or_for_all(program: str, run: list[str], tmp_path: Path) -> None:
    found = read(topology(tmp_path), tmp_path, tmp_path / program)
    assert [str(s.program.relative_to(tmp_path)) for s in found.switches.values()] == run


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hosts": []}, "needs 'hosts'"),
        ({"hosts": {"h1": {"ip": "10.0.0.1"}}}, "host h1 needs 'ip' and 'mac'"),
        ({"hosts": HOSTS | {"h 3": {}}}, "'h 3' is no name"),
        ({"switches": {"s1": {}, "s2": {}}}, "switch s1 names no program: give one with --program"),
        ({"switches": {"s1": {"program": "a.p4", "cpu_port": 511}}}, "switch s1: 511 is no port for a controller"),
        ({"links": [*LINKS, ["h1", "s1-p3"]]}, "two links end at h1"),
        ({"links": LINKS[:1]}, "host h2 has no link"),
        ({"links": [["h1", "h2"]]}, "a link between two hosts"),
        ({"links": [["h1", "s9-p1"]]}, "'s9-p1' is neither a host nor a switch's port"),
        ({"links": [["h1", "s1-p511"]]}, "'s1-p511' is neither"),
        ({"links": [["h1", "s1-p1", "soon"]]}, "'soon' is no latency"),
        ({"links": [["h1", "s1-p1", "0", -1]]}, "-1 is no bandwidth"),
        ({"links": ["h1"]}, "a link is [NODE, NODE, LATENCY, BANDWIDTH]"),
    ],
)
def test_what_makes_no_network_is_told_in_a_sentence(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ExerciseError) as caught:
        read(topology(tmp_path, **change), tmp_path)
    assert message in str(caught.value)


@pytest.mark.parametrize(("text", "message"), [("{", "is no JSON"), ("[]", "must hold an object"), (None, "cannot read")])
def test_a_file_that_cannot_be_read(text: str | None, message: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "topology.json").write_text(text)
    with pytest.raises(ExerciseError, match=message):
        read(tmp_path / "topology.json", tmp_path)


INFO = """I.t [implementation=None, mk=h.a(exact, 8),\th.b(lpm, 32),\th.c(ternary, 16),\th.d(range, 8)]
I.go [mac(48),\tport(9)]
NoAction []
"""


def made(**document: Any) -> list[str]:
    return list(commands(document, lambda table: INFO))


def test_entries_become_commands_in_the_order_of_the_actions_parameters() -> None:
    go = {"table": "I.t", "action_name": "I.go", "action_params": {"port": 1, "mac": "08:00:00:00:01:11"}}
    assert made(
        table_entries=[
            go | {"match": {"h.a": 1, "h.b": ["10.0.1.1", 32], "h.c": [5, 7], "h.d": [1, 9]}, "priority": 3},
            go | {"match": {"h.a": [2]}},
            {"table": "I.t", "default_action": True, "action_name": "NoAction"},
        ]
    ) == [
        f"table_add I.t I.go 1 10.0.1.1/32 5&&&7 1->9 => 08:00:00:00:01:11 1 {HIGHEST_PRIORITY - 3}",
        f"table_add I.t I.go 2 0/0 0&&&0 0->255 => 08:00:00:00:01:11 1 {HIGHEST_PRIORITY}",
        "table_set_default I.t NoAction",
    ]


def test_groups_and_sessions() -> None:
    replicas = [{"egress_port": 1, "instance": 1}, {"egress_port": 2, "instance": 1}]
    assert made(
        multicast_group_entries=[{"multicast_group_id": 1, "replicas": replicas}],
        clone_session_entries=[
            {"clone_session_id": 5, "replicas": replicas[:1]},
            {"clone_session_id": 6, "replicas": replicas},
        ],
    ) == [
        "mc_mgrp_create 1", "mc_node_create 1 1", "mc_node_associate 1 0", "mc_node_create 1 2", "mc_node_associate 1 1",
        "mirroring_add 5 1",
        "mc_mgrp_create 32769", "mc_node_create 1 1", "mc_node_associate 32769 2", "mc_node_create 1 2", "mc_node_associate 32769 3",
        "mirroring_add_mc 6 32769",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"table": "I.t"}, "needs `table` and `action_name`"),
        ({"table": "I.t", "action_name": "I.fly"}, "table I.t has no action I.fly: it has I.go, NoAction"),
        ({"table": "I.t", "action_name": "I.go", "action_params": {"mac": 1}}, "action I.go takes mac, port, and mac is given"),
        ({"table": "I.t", "action_name": "NoAction"}, "key h.a is exact, and has no value"),
        ({"table": "I.t", "action_name": "NoAction", "match": {"h.e": 1}}, "table I.t has no key h.e"),
        ({"table": "I.t", "action_name": "NoAction", "match": {"h.a": 1, "h.b": 5}}, "5 does not fit key h.b, which is lpm"),
    ],
)
def test_what_cannot_be_followed(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(RuntimeJsonError) as caught:
        made(table_entries=[entry])
    assert message in str(caught.value)
