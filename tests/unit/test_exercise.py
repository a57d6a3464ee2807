"""topology.json and runtime JSON of an exercise, without a network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from inalab.switches.json_file import JsonFileError
from inalab.switches.json_file import read as read_json
from inalab.switches.runtime_json import HIGHEST_PRIORITY, RuntimeFile, RuntimeJsonError, commands
from inalab.topologies.exercise import End, ExerciseError, ExerciseLink, read

HOSTS = {"h1": {"ip": "10.0.1.1/24", "mac": "08:00:00:00:01:11"}, "h2": {"ip": "10.0.2.2/24", "mac": "08:00:00:00:02:22"}}
LINKS = [["h1", "s1-p1"], ["h2", "s2-p1"], ["s1-p2", "s2-p2", "5ms", 0.5]]


def topology(folder: Path, **change: Any) -> Path:
    (folder / "s1.json").write_text(json.dumps({"bmv2_json": "build/basic.json"}))
    switches = {"s1": {"runtime_json": "s1.json"}, "s2": {"runtime_json": "s1.json", "program": "build/firewall.json"}}
    for program in ("basic.p4", "firewall.p4") if "switches" not in change else ():
        (folder / program).write_text("")
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
    with pytest.raises(ExerciseError, match=r"switch s1 names no program: choose one of flows.p4, other.p4 with --program"):
        read(path, tmp_path)


@pytest.mark.parametrize(
    ("program", "run"), [("solution/firewall.p4", ["basic.p4", "solution/firewall.p4"]), ("mine.p4", ["mine.p4", "mine.p4"])]
)
def test_a_program_stands_in_for_the_one_of_its_name_or_for_all(program: str, run: list[str], tmp_path: Path) -> None:
    (tmp_path / "solution").mkdir()
    (tmp_path / program).write_text("")
    found = read(topology(tmp_path), tmp_path, tmp_path / program)
    assert [str(s.program.relative_to(tmp_path)) for s in found.switches.values()] == run


H1 = HOSTS["h1"]
ROUTE = "route add default gw 10.0.1.10 dev eth0"


def of_h1(**change: Any) -> dict[str, Any]:
    return {"hosts": HOSTS | {"h1": H1 | change}}


def of_s1(**change: Any) -> dict[str, Any]:
    return {"switches": {"s1": change, "s2": {"program": "a.p4"}}}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"hosts": []}, '"hosts" is []: write an object such as {"h1": {"ip": "10.0.1.1/24", "mac": "08:00:00:00:01:11"}}'),
        ({"hosts": {"h1": 5}}, "host h1: 5 is not an object: write {…}"),
        ({"hosts": {"h1": {"ip": "10.0.0.1/8"}}}, 'host h1: "mac" is missing: write six bytes with colons between them'),
        ({"hosts": HOSTS | {"h 3": H1}}, 'host h 3: "h 3" is not a name for a host or switch: write a letter, then letters'),
        ({"hosts": HOSTS | {"h" * 11: H1}}, "is not a name for a host or switch"),
        (of_h1(ip="10.0.0.300/24"), 'host h1: "ip" is "10.0.0.300/24": write an IPv4 address with the length of its prefix, such'),
        (of_h1(ip="10.0.0.3"), 'host h1: "ip" is "10.0.0.3": write the length of its prefix, too, such as "10.0.0.3/24"'),
        (of_h1(ip="224.0.0.1/24"), 'host h1: "ip" is "224.0.0.1/24": write an address that one host can have, such as "10.0.1.1/24"'),
        (of_h1(ip="10.0.1.0/24"), "write another address of 10.0.1.0/24, because this is the address of the network itself"),
        (of_h1(ip="10.0.1.255/24"), "write another address of 10.0.1.0/24, because this is the broadcast address"),
        (of_h1(ip=None), 'host h1: "ip" is null: write an IPv4 address'),
        (of_h1(ip="10.0.2.2/16"), "hosts h1 and h2 have the same ip, 10.0.2.2: give each an address of its own"),
        ({"hosts": {"h1": H1, "h2": H1}}, "hosts h1 and h2 have the same ip, 10.0.1.1: give each an address of its own"),
        (of_h1(mac="08-00-00-00-01-11"), '"mac" is "08-00-00-00-01-11": write colons instead of hyphens, "08:00:00:00:01:11"'),
        (of_h1(mac="08:00:00:00:01"), 'host h1: "mac" is "08:00:00:00:01": write six bytes with colons between them'),
        (of_h1(mac="09:00:00:00:01:11"), 'write an address of one host, whose first byte is even, such as "08:00:00:00:01:11"'),
        (of_h1(mac="00:00:00:00:00:00"), "write an address that is not all zeros"),
        (of_h1(commands=ROUTE), f'host h1: "commands" is "{ROUTE}": write a list of commands, such as ["{ROUTE}"]'),
        (of_h1(commands={"a": "b"}), 'host h1: "commands" is {"a": "b"}: write a list of commands'),
        (of_h1(commands=None), 'host h1: "commands" is null: write a list of commands'),
        (of_h1(commands=7), 'host h1: "commands" is 7: write a list of commands'),
        (of_h1(commands=[["ls"]]), 'host h1: "commands" is [["ls"]]: write a list of commands'),
        (of_h1(commands=["a\0b"]), 'host h1: "commands" is ["a\\u0000b"]: write a list of commands'),
        (of_h1(comands=[ROUTE]), 'host h1: "comands" is unknown: did you mean "commands"?'),
        (of_h1(MAC="08:00:00:00:01:11"), 'host h1: "MAC" is unknown: did you mean "mac"?'),
        (of_h1(run=["ls"]), 'host h1: "run" is ["ls"]: write a command, such as "./receive.py"'),
        ({"switches": {"s1": {}, "s2": {}}}, "switch s1 names no program: this folder has no .p4 file, so give one with --program"),
        (of_s1(program="a.p4", cpu_port=511), 'switch s1: "cpu_port" is 511: write the number of a port from 0 to 510'),
        (of_s1(program="a.p4", cpu_port="first"), 'switch s1: "cpu_port" is "first": write the number of a port'),
        (of_s1(program="a.p4", cpu_port=1), "link 1: s1-p1 is taken by its cpu_port: choose another port"),
        (of_s1(program=7), 'switch s1: "program" is 7: write the path of a program, such as "build/basic.json" or "basic.p4"'),
        (of_s1(runtime_json=["s1.json"]), 'switch s1: "runtime_json" is ["s1.json"]: write the path of a file'),
        (of_s1(runtime_jsn="s1.json"), 'switch s1: "runtime_jsn" is unknown: did you mean "runtime_json"?'),
        (of_s1(program="a.p4", cli_input="gone.txt"), "switch s1: cannot read gone.txt: No such file or directory"),
        (of_s1(program="a.p4", cli_input="binary"), "switch s1: binary is not text"),
        ({"switches": {"h1": {"program": "a.p4"}}}, "h1 is a host and a switch: rename one of them"),
        ({"links": 5}, '"links" is 5: write a list such as [["h1", "s1-p1"], ["s1-p2", "s2-p1", "5ms", 10]]'),
        ({"link": LINKS}, '"link" is unknown: did you mean "links"?'),
        ({"links": ["h1"]}, 'link 1: "h1" is not a link: write [NODE, NODE, LATENCY, BANDWIDTH], the last two if you want'),
        ({"links": [*LINKS, ["h1"]]}, 'link 4: ["h1"] is not a link'),
        ({"links": [["h1", 1]]}, """link 1: "second" is 1: write a host, or a switch's port such as "s1-p1\""""),
        ({"links": [*LINKS, ["h1", "s1-p1"]]}, "link 4: s1-p1 is taken by link 1: choose another port"),
        ({"links": LINKS[:1]}, 'host h2 has no link: add one, such as ["h2", "s1-p1"]'),
        ({"links": [["h1", "h2"]]}, "link 1 is between two hosts, h1 and h2: put a switch between them"),
        ({"links": [["h1", "ss2-p1"]]}, 'link 1: "ss2-p1" is neither a host nor the port of a switch, such as s1-p1: did you mean s2?'),
        ({"links": [["h1", "s1"]]}, 'link 1: "s1" needs a port, such as "s1-p1"'),
        ({"links": [["h1", "s1-p511"]]}, 'link 1: "s1-p511" is not a port: those of s1 are s1-p0 to s1-p510'),
        ({"links": [["h1", "s1-p²"]]}, 'link 1: "s1-p²" is not a port'),
        ({"links": [["h1", "s1-p1", "soon"]]}, 'link 1: "latency" is "soon": write a number of milliseconds, or text such as "5ms"'),
        ({"links": [["h1", "s1-p1", -1]]}, 'link 1: "latency" is -1: write a number of milliseconds'),
        ({"links": [["h1", "s1-p1", 1e300]]}, 'link 1: "latency" is 1e+300: write a number of milliseconds'),
        ({"links": [["h1", "s1-p1", "0", -1]]}, 'link 1: "bandwidth" is -1: write a number of Mbit/s, more than 0'),
        ({"links": [["h1", "s1-p1", "0", True]]}, 'link 1: "bandwidth" is true: write a number of Mbit/s'),
        (
            {"links": [["h1", "switch123-p500"]], "switches": {"switch123": {"program": "a.p4"}}},
            "link 1: the interface switch123-eth500 has 16 characters, and Linux takes 15: shorten the name switch123 or choose",
        ),
    ],
)  # fmt: skip
def test_what_makes_no_network_is_told_in_a_sentence(change: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    if '"a.p4"' in json.dumps(change):
        (tmp_path / "a.p4").write_text("")
    path = topology(tmp_path, **change)
    with pytest.raises(ExerciseError) as caught:
        read(path, tmp_path)
    assert str(caught.value).startswith(f"{path}: ") and sentence in str(caught.value) and "\n" not in str(caught.value)


JUNK = [None, True, 0, -1, 7, 1e999, 10**400, "", " ", "é\ud800", "a\0b", "s1-p1", [], [[]], ["h1"], {}, {"a": {"b": []}}]


def odd(document: Any) -> Iterator[Any]:
    """The document with each of its parts replaced, one at a time, by what does not belong there."""
    yield from JUNK
    for key in list(document) if isinstance(document, dict) else range(len(document)) if isinstance(document, list) else []:
        for part in odd(document[key]):
            changed = deepcopy(document)
            changed[key] = part
            yield changed


def test_whatever_stands_somewhere_is_taken_or_a_sentence(tmp_path: Path) -> None:
    path = topology(tmp_path, links=[*LINKS, ["s2-p3", "h1"]])
    entry = {"table": "t", "action_name": "a", "match": {"k": ["10.0.1.1", 32]}, "action_params": {"port": 1}, "priority": 1}
    group = {"multicast_group_id": 1, "replicas": [{"egress_port": 1, "instance": 1}]}
    runtime = {"bmv2_json": "build/basic.json", "table_entries": [entry], "multicast_group_entries": [group]}
    for file, whole in ((path, json.loads(path.read_text())), (tmp_path / "s1.json", runtime)):
        for document in odd(whole):
            file.write_text(json.dumps(document))
            try:
                read(path, tmp_path)
            except ExerciseError as error:
                assert "\n" not in str(error)
        file.write_text(json.dumps(whole))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is not JSON: "),
        ("[]", ": [] is not an object: write {…}"),
        ('{"hosts": {"h1": 1, "h1": 2}}', 'is not JSON: an object has the key "h1" twice'),
        ('{"links": [["h1", "s1-p1", NaN]]}', "is not JSON: NaN is not a number of JSON"),
        ("[" * 100_000, "is not JSON: it is nested too deeply"),
        ('{"p4_src": "basic.p4", "topology": {"links": []}}', ": this is a file of P4-utils, not of p4lang/tutorials: boot it by python"),
        ('{"program": "basic.p4", "targets": {}}', ": this is a file of p4lang/p4app, not of p4lang/tutorials"),
        (None, "cannot read "),
    ],
)  # fmt: skip
def test_a_file_that_is_no_topology(text: str | None, sentence: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "topology.json").write_text(text)
    with pytest.raises(ExerciseError) as caught:
        read(tmp_path / "topology.json", tmp_path)
    assert sentence in str(caught.value)


def test_keys_that_other_programs_read_pass(tmp_path: Path) -> None:
    """Those that courses and older versions of the tutorials have, too; of what has no effect, some is noted."""
    hosts = HOSTS | {"h1": H1 | {"mac2": "08:00:00:00:01:12", "ip6": "::1", "defaultRoute": "via 10.0.1.10"}}
    (tmp_path / "clones.json").write_text(
        json.dumps({"clone_session_entries": [{"clone_session_id": 5, "packet_length_bytes": 64}]})
    )
    first = {"program": "a.p4", "runtime_json": "clones.json", "priority_queues": 8, "name": "first"}
    switches = {"s1": first, "s2": {"program": "a.p4", "cpu_port": "510"}}
    (tmp_path / "a.p4").write_text("")
    found = read(topology(tmp_path, hosts=hosts, switches=switches, default_switch="bmv2", name="an exercise"), tmp_path)
    assert found.switches["s2"].cpu_port == 510
    assert found.notes == [
        "s1: priority_queues has no effect, because a port of the embedded switch has one queue",
        "clones.json: packet_length_bytes has no effect, because the embedded switch clones whole packets",
    ]


def test_a_host_may_have_several_links(tmp_path: Path) -> None:
    found = read(topology(tmp_path, links=[*LINKS, ["s2-p3", "h1"]]), tmp_path)
    assert found.links[3].ends == (End("s2", 3), End("h1", 1, True))


def test_the_programs_to_choose_from_are_listed(tmp_path: Path) -> None:
    path = topology(tmp_path, switches={"s1": {}, "s2": {}})
    for name in ("flow.p4", "calc.p4"):
        (tmp_path / name).write_text("")
    with pytest.raises(ExerciseError, match=r"switch s1 names no program: choose one of calc.p4, flow.p4 with --program"):
        read(path, tmp_path)
    with pytest.raises(
        ExerciseError, match=r"switch s1 runs gone.p4, which is not there: choose one of calc.p4, flow.p4 with --program"
    ):
        read(path, tmp_path, tmp_path / "gone.p4")


INFO = """I.t [implementation=None, mk=h.a(exact, 8),\th.b(lpm, 32),\th.c(ternary, 16),\th.d(range, 8)]
I.go [mac(48),\tport(9)]
NoAction []
"""


def made(**document: Any) -> list[str]:
    return list(commands(RuntimeFile.model_validate(document), lambda table: INFO))


def test_entries_become_commands_in_the_order_of_the_actions_parameters() -> None:
    go = {"table": "I.t", "action_name": "I.go", "action_params": {"port": 1, "mac": "08:00:00:00:01:11"}}
    assert made(
        table_entries=[
            go | {"match": {"h.a": 1, "h.b": ["10.0.1.1", 32], "h.c": [5, 7], "h.d": [1, 9]}, "priority": 3},
            go | {"match": {"h.a": [2]}, "priority": 1, "action_name": "go"},
            {"table": "I.t", "default_action": True, "action_name": "NoAction"},
        ]
    ) == [
        f"table_add I.t I.go 1 10.0.1.1/32 5&&&7 1->9 => 08:00:00:00:01:11 1 {HIGHEST_PRIORITY - 3}",
        f"table_add I.t I.go 2 0/0 0&&&0 0->255 => 08:00:00:00:01:11 1 {HIGHEST_PRIORITY - 1}",
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


NOTHING = {"table": "I.t", "action_name": "NoAction"}


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        ({"action_name": "I.fly"}, "table I.t has no action I.fly: it has I.go, NoAction"),
        ({"action_name": "o"}, "table I.t has no action o: it has I.go, NoAction"),
        ({"action_name": "I.go", "action_params": {"mac": 1}}, "action I.go takes mac, port, and mac is given"),
        ({"action_name": "I.go", "action_params": []}, "action I.go takes mac, port, and nothing is given"),
        ({}, "key h.a is exact, and has no value"),
        ({"match": {"h.e": 1}}, "table I.t has no key h.e"),
        ({"match": {"h.a": 1, "h.b": 5}}, "5 does not fit key h.b, which is lpm"),
        ({"match": {"h.a": 1}}, 'table I.t: key h.c is ternary, so the entry needs a "priority" of 1 or more'),
        ({"match": {"h.a": 1}, "priority": 0}, 'so the entry needs a "priority" of 1 or more'),
    ],
)
def test_what_does_not_fit_the_program(entry: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RuntimeJsonError) as caught:
        made(table_entries=[NOTHING | {"default_action": True}, NOTHING | entry])
    assert str(caught.value).startswith("table entry 2: ") and sentence in str(caught.value)


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ([], "s1.json: [] is not an object"),
        ({"table_entries": {}}, 's1.json: "table_entries" is {}: write a list of objects'),
        ({"table_entires": []}, 's1.json: "table_entires" is unknown: did you mean "table_entries"?'),
        ({"bmv2_json": 5}, 's1.json: "bmv2_json" is 5: write the path of a compiled program'),
        ({"table_entries": [NOTHING, 5]}, "s1.json: table entry 2: 5 is not an object"),
        ({"table_entries": [{"table": "I.t"}]}, 's1.json: table entry 1: "action_name" is missing: write the name of an action'),
        ({"table_entries": [NOTHING | {"action_parms": {}}]}, 'table entry 1: "action_parms" is unknown: did you mean "action_params"?'),
        (
            {"table_entries": [NOTHING | {"match": ["10.0.1.1", 32]}]},
            'table entry 1: "match" is ["10.0.1.1", 32]: write an object with the keys\' values, such as {"hdr.ipv4.dstAddr": [',
        ),
        ({"table_entries": [NOTHING | {"match": {"h.a": "1 2"}}]}, 'table entry 1: "match" is {"h.a": "1 2"}: write an object'),
        ({"table_entries": [NOTHING | {"action_params": [1]}]}, 'table entry 1: "action_params" is [1]: write an object with the par'),
        ({"table_entries": [NOTHING | {"priority": "high"}]}, 'table entry 1: "priority" is "high": write a whole number from 1 to'),
        ({"table_entries": [NOTHING | {"default_action": "yes"}]}, 'table entry 1: "default_action" is "yes": write true or false'),
        ({"multicast_group_entries": [{}]}, 'multicast group entry 1: "multicast_group_id" is missing: write the number of the group'),
        (
            {"clone_session_entries": [{"clone_session_id": 5, "replicas": [{"egress_port": "1"}]}]},
            'clone session entry 1: replica 1: "egress_port" is "1": write the number of a port',
        ),
    ],
)  # fmt: skip
def test_a_runtime_file_is_checked_before_anything_is_made(document: Any, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "s1.json").write_text(json.dumps(document))
    with pytest.raises(JsonFileError) as caught:
        read_json(RuntimeFile, tmp_path / "s1.json", "s1.json")
    assert str(caught.value).startswith("s1.json: ") and sentence in str(caught.value)


def test_an_empty_list_is_nothing_as_in_the_tutorials_script() -> None:
    assert made(table_entries=[NOTHING | {"match": [], "action_params": [], "default_action": True}]) == [
        "table_set_default I.t NoAction"
    ]
