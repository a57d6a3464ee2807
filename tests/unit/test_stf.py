"""Cases of the simple test framework on the embedded switch."""

from __future__ import annotations

from pathlib import Path

import pytest

from inalab.switches import stf
from tests.scenarios import ETHERNET, PROGRAMS

HEAD = ETHERNET.hex()
TABLES = PROGRAMS / "tables.p4"


def played(tmp_path: Path, text: str) -> list[str]:
    """What is wrong after a case in which a packet asks tables.p4 for 10.1.2.3."""
    case = tmp_path / "case.stf"
    case.write_text(text)
    return stf.play(case, TABLES)


def asked(tmp_path: Path, *before: str) -> str:
    """The bytes behind the Ethernet header that the switch sends, as hexadecimal digits."""
    (line,) = played(tmp_path, "\n".join([*before, f"packet 0 {HEAD} 0a010203 {'00' * 12}", "expect 2 ff"]))
    return line.rpartition(" ")[2].lower()[len(HEAD) :]


def test_entries_by_prefix_and_by_digits_that_do_not_matter(tmp_path: Path) -> None:
    without = asked(tmp_path)
    by_length = asked(tmp_path, "add by_prefix hdr.probe.address:0x0a010200/24 set_result(value:7)")
    by_digits = asked(tmp_path, "add Work.by_prefix probe.address:0x0a0102** Work.set_result(value:7) = handle # a comment")
    other = asked(tmp_path, "add by_prefix address:0x0b000000/8 set_result(value:7)")
    assert without == other != by_length == by_digits


def test_names_in_quotes(tmp_path: Path) -> None:
    plain = asked(tmp_path, "add by_prefix hdr.probe.address:0x0a010200/24 set_result(value:7)")
    assert plain == asked(
        tmp_path, 'add "Work.by_prefix" 1 "hdr.probe.address":0b000010100000000100000010******** "set_result"("value":0x7)'
    )


def test_larger_priorities_go_first(tmp_path: Path) -> None:
    one, other = (
        "add by_mask {} left:0x0000 set_second(value:7, more:0)",
        "add by_mask {} right:0x0000 set_second(value:8, more:0)",
    )
    first = asked(tmp_path, one.format(2), other.format(1))
    assert first[18:20] == "07"
    assert first == asked(tmp_path, other.format(1), one.format(2)) != asked(tmp_path, one.format(1), other.format(2))


def test_what_differs_is_told_with_its_line(tmp_path: Path) -> None:
    packet = f"packet 0 {HEAD} 0a010203 {'00' * 12}\n"
    (none,) = played(tmp_path, packet + "expect 3 00$\nexpect 2")
    assert none == "port 3: 1 packets expected, 0 sent"
    assert played(tmp_path, packet + "expect 2") == []
    (fewer,) = played(tmp_path, packet + "expect 2\nexpect 2")
    assert fewer == "port 2: 2 packets expected, 1 sent"
    (more,) = played(tmp_path, 2 * packet + "expect 2")
    assert more == "port 2: 1 packets expected, 2 sent"
    assert played(tmp_path, packet + f"expect 2 {'*' * len(HEAD)}") == []
    (longer,) = played(tmp_path, packet + f"expect 2 {'*' * len(HEAD)} $")
    assert longer.startswith("line 2: port 2: expected ****")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("remove all", "case.stf:1: remove is not supported"),
        ("packet x 00", "needs the number of a port"),
        ("packet 0 0", "case.stf:1: 0 is no packet"),
        ("expect 0 00$ 00", "case.stf:1: 00$00 is no packet"),
        ("no_packet", "case.stf:1: no_packet is not supported"),
        ("add", "case.stf:1: add needs a table"),
        ("add by_prefix", "case.stf:1: '' is no action"),
        ("add by_prefix address set_result(value:1)", "case.stf:1: 'address set_result(value:1)' is no action"),
        ("add by_prefix address:1 set_result(1)", "case.stf:1: '1' is no argument"),
        ("add by_prefix address:1 set_result(value:1, value:2)", "case.stf:1: parameter value is given twice"),
        ("add by_prefix address:1 address:2 set_result(value:1)", "case.stf:1: key address is given twice"),
        ("setdefault by_prefix address:1 set_result(value:1)", "is no action"),
        ("add by_mask left:1 set_second(value:1, more:0)", "line 1: an entry of Work.by_mask needs a priority"),
        ("add by_mask 10001 left:1 set_second(value:1, more:0)", "line 1: priority 10001 is higher than 10000"),
        ("add by_prefix address:0x1ffffffff set_result(value:1)", "line 1: 0x1ffffffff/36 does not match key"),
        ("mirroring_add 1", "line 1: usage: mirroring_add"),
        ("mc_node_associate 1 0", "line 1: there is no multicast group 1"),
        ("add nosuch a:1 b()", "line 1: there is no table nosuch"),
        ("add by_prefix nosuch:1 set_result(value:1)", "there is no key nosuch"),
        ("add by_prefix address:1 nosuch()", "there is no action nosuch"),
        ("add by_prefix address:1 set_result()", "set_result takes value"),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(stf.StfError) as caught:
        played(tmp_path, line)
    assert message in str(caught.value)
