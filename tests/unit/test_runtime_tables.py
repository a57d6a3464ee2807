"""Entries as the control plane makes them: priorities, prefixes, full tables, counts, and entries that change or go."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from inalab.switches.control import ControlError
from inalab.switches.embedded.build import build
from inalab.switches.embedded.offline import OfflineSwitch
from tests.scenarios import ETHERNET
from tests.unit.test_runtime import QUEUES, probe

FORM = struct.Struct(">IHHBBBB")


@pytest.fixture
def tables() -> Iterator[OfflineSwitch]:
    """tests/programs/tables.p4, built with sanitizers; it must end without a leak."""
    with OfflineSwitch(build(Path("tests/programs/tables.p4"), sanitize=True)) as made:
        yield made
    assert made.process.returncode == 0


@pytest.fixture
def small() -> Iterator[OfflineSwitch]:
    """tests/programs/queues.p4, whose table has room for four entries."""
    with OfflineSwitch(build(QUEUES, sanitize=True)) as made:
        yield made
    assert made.process.returncode == 0


def results(switch: OfflineSwitch, address: int = 0, left: int = 0, right: int = 0) -> tuple[int, int, int, int]:
    """What by_prefix, by_mask, by_range and exactly wrote for a packet."""
    ((_, data),) = switch.send(0, ETHERNET + FORM.pack(address, left, right, 0, 0, 0, 0))
    _, _, _, result, second, third, fourth = FORM.unpack(data[14:])
    return result, second, third, fourth


def handle(wording: str) -> int:
    return int(wording.rsplit(maxsplit=1)[-1])


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_lowest_priority_wins_in_whatever_order_entries_come(tables: OfflineSwitch, order: tuple[int, ...]) -> None:
    masks = ["0x10&&&0xf0 0&&&0 => 1 0 10", "0x11&&&0xff 0&&&0 => 2 0 5", "0&&&0 7 => 3 0 20"]
    ranges = ["0->100 7 => 1 30", "5->20 7 => 2 1", "17->17 7 => 3 2"]
    for n in order:
        tables.command(f"table_add by_mask set_second {masks[n]}")
        tables.command(f"table_add by_range set_third {ranges[n]}")
    assert results(tables, left=0x11, right=7)[1:3] == (2, 2)
    assert results(tables, left=0x12, right=7)[1:3] == (1, 2)
    assert results(tables, left=0x20, right=7)[1:3] == (3, 1)
    assert results(tables, left=0x20, right=8)[1:3] == (0, 9)


def test_priorities_are_numbers_not_text(tables: OfflineSwitch) -> None:
    tables.command("table_add by_mask set_second 1 1 => 1 0 10")
    tables.command("table_add by_mask set_second 1&&&1 1 => 2 0 9")
    tables.command("table_add by_mask set_second 1&&&3 1 => 3 0 100")
    assert results(tables, left=1, right=1)[1] == 2
    tables.command("table_add by_mask set_second 1&&&7 1 => 4 0 0")
    assert results(tables, left=1, right=1)[1] == 4
    for wrong in ("-1", "2147483648", "x", ""):
        with pytest.raises(ControlError):
            tables.command(f"table_add by_mask set_second 1&&&15 1 => 5 0 {wrong}")
    tables.command("table_add by_mask set_second 1&&&15 1 => 5 0 2147483647")
    assert results(tables, left=1, right=1)[1] == 4


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_the_longest_prefix_wins_in_whatever_order_entries_come(tables: OfflineSwitch, order: tuple[int, ...]) -> None:
    prefixes = ["0.0.0.0/0 => 1", "10.0.0.0/8 => 2", "10.1.0.0/16 => 3", "10.1.2.3/32 => 4"]
    handles = {}
    for n in order:
        handles[n] = handle(tables.command(f"table_add by_prefix set_result {prefixes[n]}"))
    addresses = (0x01020304, 0x0A020304, 0x0A010304, 0x0A010203)
    assert [results(tables, address)[0] for address in addresses] == [1, 2, 3, 4]
    tables.command(f"table_delete by_prefix {handles[2]}")
    assert [results(tables, address)[0] for address in addresses] == [1, 2, 2, 4]
    tables.command(f"table_delete by_prefix {handles[0]}")
    assert [results(tables, address)[0] for address in addresses] == [255, 2, 2, 4]


def test_the_bits_beyond_a_prefix_or_mask_do_not_count(tables: OfflineSwitch) -> None:
    tables.command("table_add by_prefix set_result 10.9.8.7/8 => 2")
    assert results(tables, 0x0A000000)[0] == 2
    with pytest.raises(ControlError, match="has such an entry"):
        tables.command("table_add by_prefix set_result 10.1.1.1/8 => 3")
    tables.command("table_add by_mask set_second 0xffff&&&0x00f0 0&&&0 => 7 0 1")
    assert results(tables, left=0x00F3)[1] == 7


@pytest.mark.parametrize(
    ("first", "same", "other"),
    [
        ("by_mask set_second 1&&&1 0&&&0 => 1 1 3", "by_mask nothing 3&&&1 7&&&0 => 3", "by_mask nothing 1&&&1 0&&&0 => 4"),
        ("by_range set_third 1->5 2 => 1 3", "by_range nothing 1->5 2 => 3", "by_range nothing 1->6 2 => 3"),
        ("exactly add 1 2 => 1", "exactly nothing 1 2 =>", "exactly nothing 2 1 =>"),
        ("by_prefix set_result 1.0.0.0/8 => 1", "by_prefix nothing 1.0.0.0/8 =>", "by_prefix nothing 1.0.0.0/9 =>"),
        ("exactly add 0b1010 0O17 => 1", "exactly nothing 0XA 15 =>", "exactly nothing 0b1011 0o17 =>"),
    ],
)
def test_an_entry_is_there_once(tables: OfflineSwitch, first: str, same: str, other: str) -> None:
    name = first.split(maxsplit=1)[0]
    added = handle(tables.command(f"table_add {first}"))
    with pytest.raises(ControlError, match=f"has such an entry: handle {added}"):
        tables.command(f"table_add {same}")
    assert tables.command(f"table_num_entries {name}") == "1\n"
    tables.command(f"table_add {other}")
    assert tables.command(f"table_num_entries {name}") == "2\n"


def test_a_full_table_refuses_and_takes_again_what_there_is_room_for(small: OfflineSwitch) -> None:
    handles = [handle(small.command(f"table_add by_op to {op} => {op}")) for op in range(2, 6)]
    assert len(set(handles)) == 4
    with pytest.raises(ControlError, match="is full: its size is 4"):
        small.command("table_add by_op to 6 => 6")
    assert small.command("table_num_entries by_op") == "4\n"
    assert [small.send(0, probe(op))[0][0] for op in range(2, 7)] == [2, 3, 4, 5, 1]
    small.command(f"table_delete by_op {handles[1]}")
    assert small.command("table_num_entries by_op") == "3\n"
    assert handle(small.command("table_add by_op to 6 => 6")) not in handles
    assert [small.send(0, probe(op))[0][0] for op in range(2, 7)] == [2, 1, 4, 5, 6]
    small.command("table_clear by_op")
    assert small.command("table_num_entries by_op") == "0\n"
    again = [handle(small.command(f"table_add by_op to {op} => 7")) for op in range(4)]
    assert again == [0, 1, 2, 3]  # as with simple_switch
    assert [small.send(0, probe(op))[0][0] for op in range(5)] == [7, 7, 7, 7, 1]


@pytest.mark.parametrize("table", ["by_prefix set_result {n}.0.0.0/8 => 1", "by_mask set_second {n} 0&&&0 => 1 1 {n}",
                                   "by_range set_third {n}->{n} 1 => 1 1", "exactly add {n} {n} => 1"])  # fmt: skip
def test_every_kind_of_table_has_its_size(tables: OfflineSwitch, table: str) -> None:
    name = table.split(maxsplit=1)[0]
    for n in range(64):
        tables.command(f"table_add {table.format(n=n)}")
    with pytest.raises(ControlError, match="is full: its size is 64"):
        tables.command(f"table_add {table.format(n=64)}")
    assert tables.command(f"table_num_entries {name}") == "64\n"


def test_entries_that_share_a_bucket_come_and_go(tables: OfflineSwitch) -> None:
    handles = {n: handle(tables.command(f"table_add exactly add {n} 1 => {n}")) for n in range(64)}
    for n in range(0, 64, 2):
        tables.command(f"table_delete exactly {handles[n]}")
    base = results(tables, left=1000, right=1)[3]
    for n in range(64):
        expected = base if n % 2 == 0 else (base - 2 + 2 + 255 + n) % 256  # by_prefix's default, 255, and n
        assert results(tables, left=n, right=1)[3] == expected
    assert tables.command("table_num_entries exactly") == "32\n"
    for n in range(0, 64, 2):
        with pytest.raises(ControlError, match=f"has no entry {handles[n]}"):
            tables.command(f"table_delete exactly {handles[n]}")


def test_a_changed_entry_has_the_new_action_and_data_only(tables: OfflineSwitch) -> None:
    one = handle(tables.command("table_add by_mask set_second 1 0&&&0 => 1 2 3"))
    two = handle(tables.command("table_add by_mask set_second 2 0&&&0 => 10 20 3"))
    tables.command(f"table_modify by_mask set_second {one} 5 6")
    assert [results(tables, left=left)[1] for left in (1, 2)] == [11, 30]
    tables.command(f"table_modify by_mask set_second {two} => 7 8")
    assert [results(tables, left=left)[1] for left in (1, 2)] == [11, 15]
    tables.command(f"table_modify by_mask nothing {one}")
    assert [results(tables, left=left)[1] for left in (1, 2)] == [0, 15]
    for wrong in (
        f"set_second {one} 5",
        f"set_second {one} 5 6 7",
        f"set_second {one} 256 0",
        "set_second 99 5 6",
        f"set_third {two} 1",
    ):
        with pytest.raises(ControlError):
            tables.command(f"table_modify by_mask {wrong}")
    assert [results(tables, left=left)[1] for left in (1, 2)] == [0, 15]
    assert tables.command("table_num_entries by_mask") == "2\n"


def test_a_default_action_is_set_and_reset(tables: OfflineSwitch) -> None:
    tables.command("table_set_default by_mask set_second 40 2")
    assert results(tables)[1] == 42
    with pytest.raises(ControlError, match="takes 2 parameters, and 1 are given"):
        tables.command("table_set_default by_mask set_second 40")
    with pytest.raises(ControlError, match="has no action set_third"):
        tables.command("table_set_default by_mask set_third 40")
    assert results(tables)[1] == 42
    tables.command("table_reset_default by_mask")
    assert results(tables)[1] == 0
    tables.command("table_set_default by_prefix set_result => 5")
    assert results(tables)[0] == 5
    tables.command("table_reset_default by_prefix")
    assert results(tables)[0] == 255  # with the program's own data again


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("table_set_default fixed nothing", "default action of table .*fixed is const"),
        ("table_add fixed nothing 1 1 => 1", "the entries of table .*fixed are const"),
        ("table_modify fixed nothing 0", "the entries of table .*fixed are const"),
        ("table_delete fixed 0", "the entries of table .*fixed are const"),
        ("table_add exactly add 1 => 1", "has 2 key fields, and 1 are given"),
        ("table_add exactly add 1 2 3 => 1", "has 2 key fields, and 3 are given"),
        ("table_add exactly add 1 65536 => 1", "65536 does not match key"),
        ("table_add exactly add 1 -1 => 1", "-1 does not match key"),
        ("table_add by_range set_third 6->5 1 => 1 1", "6->5 does not match key"),
        ("table_add by_range set_third 5 1 => 1 1", "low->high of 16 bits is needed"),
        ("table_add by_prefix set_result 1.0.0.0/33 => 1", "value/length of 32 bits is needed"),
        ("table_add by_mask set_second 1 1 => 1 1", "and the entry a priority, and 2 are given"),
        ("table_delete exactly x", "x is not a handle"),
        ("table_num_entries y", "there is no table y"),
        ("table_num_entries _mask", "there is no table _mask"),
    ],
)
def test_what_is_refused_changes_nothing(tables: OfflineSwitch, line: str, message: str) -> None:
    before = [tables.command(f"table_dump {name}") for name in tables.command("show_tables").split()]
    with pytest.raises(ControlError, match=message):
        tables.command(line)
    assert [tables.command(f"table_dump {name}") for name in tables.command("show_tables").split()] == before
    assert tables.command("table_num_entries exactly") == "0\n"


def test_a_dump_shows_keys_actions_and_data(tables: OfflineSwitch) -> None:
    tables.command("table_add by_mask set_second 0x12&&&0xff 5 => 7 8 1")
    tables.command("table_add by_range set_third 16->32 5 => 9 1")
    tables.command("table_set_default exactly add 3")
    assert "left=0012&&&00ff hdr.probe.right=0005&&&ffff priority=1 => Work.set_second 7 8\n" in tables.command(
        "table_dump by_mask"
    )
    assert "left=0010->0020 hdr.probe.right=0005 priority=1 => Work.set_third 9\n" in tables.command("table_dump by_range")
    assert tables.command("table_dump exactly") == "default: Work.add 3\n"


def test_direct_counters_stay_with_their_entries(small: OfflineSwitch) -> None:
    handles = [handle(small.command(f"table_add by_op to {op} => 2")) for op in (1, 2, 3)]
    for op in (1, 2, 2, 3, 3, 3):
        small.send(0, probe(op) + bytes(op))
    assert [small.counter("hits", n) for n in handles] == [1, 2, 3]
    size = len(probe(0))
    assert small.command(f"counter_read hits {handles[2]}") == f"hits[2]= BmCounterValue(packets=3, bytes={3 * size + 9})\n"
    small.command(f"table_delete by_op {handles[0]}")
    assert [small.counter("hits", n) for n in handles[1:]] == [2, 3]
    with pytest.raises(ControlError, match="has no entry"):
        small.counter("hits", handles[0])


def test_reset_state_empties_tables_and_puts_defaults_back(tables: OfflineSwitch) -> None:
    tables.command("table_add exactly add 1 1 => 1")
    tables.command("table_add by_prefix set_result 0.0.0.0/0 => 1")
    tables.command("table_set_default by_mask set_second 40 2")
    fixed = results(tables, left=0x10, right=1)[2]
    tables.command("reset_state")
    assert [tables.command(f"table_num_entries {name}") for name in ("exactly", "by_prefix")] == ["0\n", "0\n"]
    assert results(tables, left=0x10, right=1)[:3] == (255, 0, fixed)


def test_a_dump_shows_the_programs_entries_as_numbers_without_a_sign() -> None:
    """All but a range across zero, which is no range of such numbers."""
    with OfflineSwitch(build(Path("tests/programs/entries.p4"), sanitize=True)) as switch:
        assert "entry 0: hdr.probe.s=ff => Work.exactly 1\n" in switch.command("table_dump exact_signed")
        assert "hdr.probe.s=f0&&&f0 priority=1 => Work.masked 1\n" in switch.command("table_dump ternary_signed")
        assert "hdr.probe.s=f6->fb priority=3 => Work.ranged 3\n" in switch.command("table_dump range_signed")
