"""Action profiles and selectors: what commands say of members and groups, and what packets find there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from inalab.switches.control import ControlError
from inalab.switches.embedded.errors import CompileError
from inalab.switches.embedded.offline import OfflineSwitch
from tests.probe import ask, compile_, program, switch

LOCALS = """
    action set(bit<8> value) { hdr.probe.a = value; }
    action add(bit<16> value) { hdr.probe.b = hdr.probe.b + value; }
    action_profile(8) plain;
    action_selector(HashAlgorithm.identity, 8, 8) chooser;
    table one { key = { hdr.probe.a : exact; } actions = { set; add; NoAction; } implementation = plain; }
    table two { key = { hdr.probe.a : exact; } actions = { add; NoAction; } implementation = plain; }
    table some { key = { hdr.probe.a : exact; hdr.probe.b : selector; } actions = { set; NoAction; }
        default_action = set(99); implementation = chooser; }
"""
APPLY = "standard.egress_spec = 1; if (hdr.probe.s == 0) { one.apply(); } else if (hdr.probe.s == 1) { two.apply(); } else { some.apply(); }"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[OfflineSwitch]:
    with switch(program(tmp_path, APPLY, LOCALS)) as started:
        yield started


def found(running: OfflineSwitch, a: int, b: int, table: int) -> tuple[int, int]:
    """a and b of the probe header after the table has been applied."""
    out = ask(running, bytes([a, b >> 8, b & 255, table]) + bytes(16))
    return out[0], int.from_bytes(out[1:3], "big")


def test_entries_refer_to_members_that_tables_share(running: OfflineSwitch) -> None:
    for line in ("act_prof_create_member plain set 7", "table_indirect_create_member one add => 300",
                 "table_indirect_add one 1 => 0", "table_indirect_add one 2 => 1", "table_indirect_add two 5 => 1",
                 "table_indirect_set_default two 1"):  # fmt: skip
        running.command(line)
    assert found(running, 1, 2, 0) == (7, 2)
    assert found(running, 2, 2, 0) == (2, 302)
    assert found(running, 5, 2, 1) == found(running, 5, 2, 1) == (5, 302)
    assert found(running, 9, 2, 0) == (9, 2) and found(running, 9, 2, 1) == (9, 302)  # NoAction, and the member that is the default
    running.command("act_prof_modify_member plain add 1 1000")
    assert found(running, 2, 2, 0) == (2, 1002) and found(running, 9, 2, 1) == (9, 1002)
    running.command("table_indirect_modify two 0 0")
    assert found(running, 5, 2, 1) == (5, 2)  # table two lists no such action as member 0 has
    running.command("table_indirect_reset_default two")
    assert found(running, 9, 2, 1) == (9, 2)
    assert running.command("act_prof_dump plain") == "mbr 0: Work.set 7\nmbr 1: Work.add 3e8\n"
    assert running.command("table_dump one").splitlines()[-1] == "default: none"
    assert "entry 1: hdr.probe.a=02 => member 1" in running.command("table_dump one")
    assert running.command("table_info one").startswith("Work.one [implementation=Work.plain, mk=hdr.probe.a(exact, 8)]")


def test_a_group_is_chosen_from_in_the_order_of_handles(running: OfflineSwitch) -> None:
    for line in (*(f"act_prof_create_member chooser set {10 + n}" for n in range(4)), "act_prof_create_group chooser",
                 *(f"act_prof_add_member_to_group chooser {n} 0" for n in (3, 0, 2)), "table_indirect_add_with_group some 1 => 0"):  # fmt: skip
        running.command(line)
    assert [found(running, 1, b, 2)[0] for b in range(6)] == [10, 12, 13, 10, 12, 13]
    assert found(running, 2, 0, 2)[0] == 2  # the program's default action never runs
    running.command("act_prof_remove_member_from_group chooser 2 0")
    assert [found(running, 1, b, 2)[0] for b in range(4)] == [10, 13, 10, 13]
    for n in (0, 3):
        running.command(f"act_prof_remove_member_from_group chooser {n} 0")
    assert found(running, 1, 5, 2)[0] == 1  # the group is empty, and nothing runs
    running.command("table_indirect_set_default_with_group some 0")
    running.command("act_prof_add_member_to_group chooser 1 0")
    assert found(running, 2, 0, 2)[0] == 11


def test_what_is_referred_to_stays_and_handles_are_used_again(running: OfflineSwitch) -> None:
    for line in ("act_prof_create_member chooser set 1", "act_prof_create_member chooser set 2", "act_prof_create_group chooser",
                 "act_prof_add_member_to_group chooser 0 0", "table_indirect_add_with_group some 1 => 0", "table_indirect_add some 2 => 1"):  # fmt: skip
        running.command(line)
    for kind, handle in (("member", 0), ("member", 1), ("group", 0)):
        with pytest.raises(ControlError, match=f"{kind} {handle} of Work.chooser is still used"):
            running.command(f"act_prof_delete_{kind} chooser {handle}")
    running.command("table_indirect_delete some 1")
    running.command("act_prof_delete_member chooser 1")
    running.command("table_clear some")
    running.command("act_prof_delete_group chooser 0")
    running.command("act_prof_delete_member chooser 0")  # the group that it was in is gone
    assert running.command("act_prof_create_member chooser set 5").endswith("handle 0\n")
    assert running.command("act_prof_create_group chooser").endswith("handle 0\n")
    assert running.command("act_prof_dump_group chooser 0") == "group 0:\n"
    running.command("act_prof_create_member plain set 1")
    running.command("table_indirect_set_default one 0")
    running.command("reset_state")
    assert running.command("act_prof_dump chooser") == running.command("act_prof_dump plain") == ""
    assert found(running, 3, 0, 0) == (3, 0)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("act_prof_create_member nosuch set 1", "there is no action profile nosuch"),
        ("act_prof_create_member chooser add 1", "action profile Work.chooser has no action add: choose one of Work.set, NoAction"),
        ("act_prof_create_member plain set", "action Work.set takes 1 parameters, and 0 are given"),
        ("act_prof_create_group plain", "Work.plain is no action_selector, and has no groups"),
        ("act_prof_add_member_to_group chooser 4 0", "Work.chooser has no member 4"),
        ("act_prof_add_member_to_group chooser 0 3", "Work.chooser has no group 3"),
        ("act_prof_remove_member_from_group chooser 0 0", "group 0 has no member 0"),
        ("act_prof_delete_group chooser x", "x is not a handle of a group"),
        ("table_indirect_add_with_group some 1 => 0", "group 0 of Work.chooser is empty: add a member first"),
        ("table_indirect_add some 1 2 => 0", "table Work.some has 1 key fields, and 2 are given"),
        ("table_indirect_add some 1 => 0 7", "a reference to a member takes 1 parameters, and 2 are given"),
        ("table_indirect_add some 1 => 9", "Work.chooser has no member 9"),
        ("table_add some set 1 => 2", "table Work.some refers to members of Work.chooser: use table_indirect_add and its like"),
        ("table_set_default some set 2", "use table_indirect_add"),
        ("table_indirect_add_with_group one 1 => 0", "Work.plain is no action_selector, and has no groups"),
    ],
)
def test_refusals_say_why(running: OfflineSwitch, line: str, message: str) -> None:
    running.command("act_prof_create_member chooser set 1")
    running.command("act_prof_create_group chooser")
    with pytest.raises(ControlError, match=message):
        running.command(line)


def test_a_table_without_a_profile_has_actions(tmp_path: Path) -> None:
    locals_ = "table t { key = { hdr.probe.a : exact; } actions = { NoAction; } }"
    with (
        switch(program(tmp_path, "t.apply();", locals_)) as running,
        pytest.raises(ControlError, match="no action profile: use table_add"),
    ):
        running.command("table_indirect_add t 1 => 0")


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ("table t { key = { hdr.probe.a : exact; } actions = { NoAction; } implementation = 5; }", "implementation must be an action_profile"),
        ("counter(4, CounterType.bytes) c; table t { actions = { NoAction; } implementation = c; }", "implementation must be an action_profile"),
        ("""action_selector(HashAlgorithm.crc16, 8, 8) chooser;
         table t { key = { hdr.probe.a : exact; hdr.probe.b : selector; } actions = { NoAction; } implementation = chooser; }
         table u { key = { hdr.probe.a : exact; hdr.probe.s : selector; } actions = { NoAction; } implementation = chooser; }""",
         "chooser has other selector keys in table t: BMv2 needs the same"),
        ("""table t { key = { hdr.probe.a : exact; } actions = { NoAction; } const entries = { 1 : NoAction(); }
         implementation = action_profile(4); }""", "entries of the program in a table that an action_profile implements"),
    ],
)  # fmt: skip
def test_programs_that_make_no_sense_are_refused(tmp_path: Path, tables: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        compile_(program(tmp_path, "t.apply();", tables))


def test_a_reset_takes_the_default_away_even_where_the_programs_is_const(tmp_path: Path) -> None:
    locals_ = """action set(bit<8> value) { hdr.probe.a = value; } action_profile(8) plain;
        table t { key = { hdr.probe.a : exact; } actions = { set; NoAction; } const default_action = NoAction; implementation = plain; }"""
    with switch(program(tmp_path, "standard.egress_spec = 1; t.apply();", locals_)) as running:
        for n in range(300):
            running.command(f"act_prof_create_member plain set {n % 256}")
        running.command("table_indirect_set_default t 250")
        assert ask(running, bytes(20))[0] == 250
        running.command("reset_state")
        assert ask(running, bytes(20))[0] == 0


def test_a_whole_name_goes_before_one_that_ends_in_it(tmp_path: Path) -> None:
    outside = '@name(".drop") action outer() { }'
    locals_ = """action drop() { hdr.probe.a = 9; } counter(4, CounterType.packets) c;
        table t { key = { hdr.probe.a : exact; } actions = { drop; outer; } }"""
    with switch(program(tmp_path, "standard.egress_spec = 1; t.apply();", locals_, outside)) as running:
        running.command("table_add t drop 1 =>")
        running.command("table_add t Work.drop 2 =>")
        assert [ask(running, bytes([a]) + bytes(19))[0] for a in (1, 2)] == [1, 9]
