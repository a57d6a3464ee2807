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


def test_what_differs_is_told_with_its_line(tmp_path: Path) -> None:
    packet = f"packet 0 {HEAD} 0a010203 {'00' * 12}\n"
    (none,) = played(tmp_path, packet + "expect 3 00$\nexpect 2")
    assert none == "port 3: 1 packets expected, 0 sent"
    assert played(tmp_path, packet + "expect 2") == []
    assert played(tmp_path, packet + f"expect 2 {'*' * len(HEAD)}") == []
    (longer,) = played(tmp_path, packet + f"expect 2 {'*' * len(HEAD)} $")
    assert longer.startswith("line 2: port 2: expected ****")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("remove all", "case.stf:1: remove is not supported"),
        ("packet x 00", "needs the number of a port"),
        ("packet 0 0", "line 1: "),
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
