"""P4Info as p4c makes it: recordings of our own programs, and what the numbering does in corners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2

from inalab.switches.embedded.compiler import check_p4
from inalab.switches.embedded.errors import CompileError
from inalab.switches.p4runtime.numbering import IDS, Numbering, field_ids, one_at_a_time
from inalab.switches.p4runtime.p4info import p4info
from tests.golden.record_p4info import FOLDER, programs
from tests.probe import INCLUDES, program

KINDS = [f.name for f in p4info_pb2.P4Info.DESCRIPTOR.fields if f.name not in ("pkg_info", "type_info")]
# what p4c 1.2.4.2 does not write yet, and what we leave out
LEFT_OUT = ("initial_default_action", "has_initial_entries", "annotations", "doc", "type_name")


def by_name(info: Any) -> dict[tuple[str, str], str]:
    """What is declared, by kind and name, as text without what is left out."""
    return {(kind, one.preamble.name): _text(one) for kind in KINDS for one in getattr(info, kind)}


def _text(message: Any) -> str:
    copy = type(message).FromString(message.SerializeToString())
    _strip(copy)
    return text_format.MessageToString(copy)


def _strip(message: Any) -> None:
    for f, value in message.ListFields():
        if f.name == "table_ids":
            value.sort()  # a set
        if f.name in LEFT_OUT:
            message.ClearField(f.name)
        elif f.message_type is not None:
            for one in value if f.label == f.LABEL_REPEATED else [value]:
                _strip(one)


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.txt")))
def test_the_same_as_p4c(name: str) -> None:
    path, defines = programs()[name]
    recorded = text_format.Parse((FOLDER / f"{name}.txt").read_text(), p4info_pb2.P4Info())
    assert by_name(p4info(check_p4(path, defines))) == by_name(recorded)


def test_every_program_has_its_recording() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(programs())


def test_names_that_hash_alike_are_moved_on_in_alphabetical_order() -> None:
    assert one_at_a_time("") == 0 and one_at_a_time("a") == 0xCA2E9442  # by hand, from Jenkins' text
    taken = 2 << 24 | one_at_a_time("a") & 0xFFFFFF
    numbering = Numbering([(2, "a", []), (2, "b", []), (1, "a", [])])
    assert numbering.ids[2, "a"] == taken and numbering.ids[1, "a"] == 1 << 24 | taken & 0xFFFFFF
    assert numbering.ids[2, "b"] != taken


def test_an_alias_is_the_shortest_end_of_its_own() -> None:
    numbering = Numbering([(IDS.TABLE, name, []) for name in ("a.b.t", "a.c.t", "u", "a.u")])
    assert [numbering.alias(name) for name in ("a.b.t", "a.c.t", "a.u", "u")] == ["b.t", "c.t", "a.u", "u"]


def test_ids_that_a_program_gives(tmp_path: Path) -> None:
    locals_ = """@id(0x1234) action set(@id(7) bit<8> value, bit<8> other) { hdr.probe.a = value + other; }
        @id(99) table t { key = { hdr.probe.a : exact @id(2); hdr.probe.b : exact; hdr.probe.s : exact @name("sign"); } actions = { set; } }"""
    info = p4info(check_p4(program(tmp_path, "t.apply();", locals_), {}, INCLUDES))
    (table,) = info.tables
    assert table.preamble.id == 0x02000063 and [(f.id, f.name) for f in table.match_fields] == [
        (2, "hdr.probe.a"),
        (3, "hdr.probe.b"),
        (4, "sign"),
    ]
    action = next(a for a in info.actions if a.preamble.name == "Work.set")
    assert action.preamble.id == 0x01001234 and [p.id for p in action.params] == [7, 2]
    assert field_ids([]) == []
    with pytest.raises(CompileError, match="@id takes one number"):
        p4info(check_p4(program(tmp_path, "t.apply();", locals_.replace("99", "x")), {}, INCLUDES))


def test_only_what_runs_is_described(tmp_path: Path) -> None:
    locals_ = "action unused() {} table never { actions = { NoAction; } } table once { actions = { NoAction; } } \
        @hidden table secret { actions = { NoAction; } }"
    info = p4info(check_p4(program(tmp_path, "once.apply(); secret.apply();", locals_), {}, INCLUDES))
    assert [table.preamble.name for table in info.tables] == ["Work.once"] and [a.preamble.name for a in info.actions] == [
        "NoAction"
    ]
