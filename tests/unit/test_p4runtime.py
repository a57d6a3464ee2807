"""Table entries over P4Runtime."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from p4.v1 import p4runtime_pb2

from tests.p4runtime_client import UPDATE, RefusedError
from tests.p4runtime_device import Device, serving


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    with serving(tmp_path) as made:
        yield made


def test_entries_are_inserted_modified_read_and_deleted(device: Device) -> None:
    c = device.client
    c.insert(table_entry=c.entry("exactly", 5, action=c.action("forward", 2, 0x1234)))
    assert device.send(0, 5) == [(2, 0x1234)] and device.send(0, 6) == []  # a miss goes to a port that is not there
    c.modify(table_entry=c.entry("exactly", 5, action=c.action("forward", 4, 1), metadata=b"mine"))
    assert device.send(0, 5) == [(4, 1)]
    (found,) = c.read(table_entry=c.entry("exactly"))
    assert found == c.entry("exactly", 5, action=c.action("forward", 4, 1), metadata=b"mine")
    assert c.read(table_entry=p4runtime_pb2.TableEntry()) == [found]  # of all tables
    assert c.read(table_entry=c.entry("exactly", 9)) == []
    c.delete(table_entry=c.entry("exactly", 5))
    assert device.send(0, 5) == [] and c.read(table_entry=c.entry("exactly")) == []


def test_the_longest_prefix_and_the_highest_priority_win(device: Device) -> None:
    c = device.client
    for length, port in ((8, 1), (16, 2), (32, 3)):
        c.insert(
            table_entry=c.entry(
                "longest", (0x0A0B0C0D >> (32 - length) << (32 - length), length), action=c.action("forward", port, 0)
            )
        )
    assert [device.send(1, c=address) for address in (0x0A0B0C0D, 0x0A0B0C0E, 0x0A0C0000, 0x0B000000)] == [
        [(3, 0)],
        [(2, 0)],
        [(1, 0)],
        [],
    ]
    c.insert(table_entry=c.entry("masked", (1, 3), (5, 10), 7, priority=10, action=c.action("forward", 1, 1)))
    c.insert(table_entry=c.entry("masked", (1, 1), None, None, priority=5, action=c.action("forward", 2, 2)))
    c.insert(table_entry=c.entry("masked", None, (6, 6), None, priority=20, action=c.action("drop")))
    assert device.send(2, a=1, b=5, c=7) == [(1, 1)] and device.send(2, a=1, b=5, c=8) == [(2, 2)]
    assert (
        device.send(2, a=3, b=5, c=7) == [(2, 2)] and device.send(2, a=1, b=6, c=7) == [] and device.send(2, a=0, b=5) == [(3, 9)]
    )
    assert sorted(e.priority for e in c.read(table_entry=c.entry("masked"))) == [5, 10, 20]
    (one,) = c.read(table_entry=c.entry("masked", (1, 3), (5, 10), 7, priority=10))
    assert one == c.entry("masked", (1, 3), (5, 10), 7, priority=10, action=c.action("forward", 1, 1))


def test_a_default_action_is_modified_and_reset(device: Device) -> None:
    c = device.client
    (found,) = c.read(table_entry=c.entry("masked", is_default_action=True))
    assert [int.from_bytes(p.value, "big") for p in found.action.action.params] == [3, 9]
    c.modify(table_entry=c.entry("masked", is_default_action=True, action=c.action("forward", 5, 6)))
    assert device.send(2) == [(5, 6)]
    c.modify(table_entry=c.entry("masked", is_default_action=True))
    assert device.send(2) == [(3, 9)]
    with pytest.raises(RefusedError, match=r"PERMISSION_DENIED.*const"):
        c.modify(table_entry=c.entry("longest", is_default_action=True, action=c.action("drop")))


REFUSED: dict[str, tuple[Any, str]] = {
    "twice": (lambda c: c.insert(table_entry=c.entry("exactly", 5, action=c.action("drop"))), "ALREADY_EXISTS"),
    "not there": (lambda c: c.delete(table_entry=c.entry("exactly", 6)), "NOT_FOUND"),
    "modified and not there": (lambda c: c.modify(table_entry=c.entry("exactly", 6, action=c.action("drop"))), "NOT_FOUND"),
    "no such table": (lambda c: c.insert(table_entry=p4runtime_pb2.TableEntry(table_id=7)), "NOT_FOUND"),
    "an action of another table": (lambda c: c.insert(table_entry=c.entry("exactly", 6, action=c.action("colour"))), "INVALID_ARGUMENT"),
    "a default only": (lambda c: c.insert(table_entry=c.entry("exactly", 6, action=c.action("NoAction"))), "INVALID_ARGUMENT"),
    "too wide": (lambda c: c.insert(table_entry=c.entry("exactly", 256, action=c.action("drop"))), "OUT_OF_RANGE"),
    "a parameter too wide": (lambda c: c.insert(table_entry=c.entry("exactly", 6, action=c.action("forward", 512, 0))), "OUT_OF_RANGE"),
    "no key": (lambda c: c.insert(table_entry=c.entry("exactly", action=c.action("drop"))), "INVALID_ARGUMENT.*missing"),
    "no action": (lambda c: c.insert(table_entry=c.entry("exactly", 6)), "INVALID_ARGUMENT.*needs an action"),
    "a priority": (lambda c: c.insert(table_entry=c.entry("exactly", 6, priority=1, action=c.action("drop"))), "INVALID_ARGUMENT"),
    "no priority": (lambda c: c.insert(table_entry=c.entry("masked", (1, 1), action=c.action("drop"))), "INVALID_ARGUMENT.*priority"),
    "bits outside the mask": (lambda c: c.insert(table_entry=c.entry("masked", (3, 1), priority=1, action=c.action("drop"))), "outside"),
    "an empty mask": (lambda c: c.insert(table_entry=c.entry("masked", (0, 0), priority=1, action=c.action("drop"))), "leave the field out"),
    "a range of everything": (lambda c: c.insert(table_entry=c.entry("masked", None, (0, 65535), priority=1, action=c.action("drop"))), "leave"),
    "bits behind the prefix": (lambda c: c.insert(table_entry=c.entry("longest", (1, 8), action=c.action("drop"))), "behind its prefix"),
    "const entries": (lambda c: c.insert(table_entry=c.entry("fixed", 2, action=c.action("drop"))), "PERMISSION_DENIED"),
    "no counter": (lambda c: c.insert(table_entry=c.entry("longest", (1 << 31, 1), action=c.action("drop"),
                                                          counter_data=p4runtime_pb2.CounterData(packet_count=1))), "no direct counter"),
    "no age": (lambda c: c.insert(table_entry=c.entry("longest", (1 << 31, 1), action=c.action("drop"), idle_timeout_ns=5)), "do not age"),
    "another device": (lambda c: c.stub.Write(p4runtime_pb2.WriteRequest(device_id=9)), "NOT_FOUND"),
    "atomic": (lambda c: c.write(atomicity=p4runtime_pb2.WriteRequest.DATAPLANE_ATOMIC), "UNIMPLEMENTED"),
    "no entity": (lambda c: c.write(UPDATE(type=UPDATE.INSERT)), "INVALID_ARGUMENT"),
    "no kind of update": (lambda c: c.write(UPDATE(entity=p4runtime_pb2.Entity(table_entry=c.entry("exactly", 6)))), "INVALID_ARGUMENT"),
    "an extern": (lambda c: c.insert(extern_entry=p4runtime_pb2.ExternEntry(extern_id=3)), "UNIMPLEMENTED"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_changes_nothing(device: Device, case: str) -> None:
    c = device.client
    c.insert(table_entry=c.entry("exactly", 5, action=c.action("forward", 2, 3)))
    ask, message = REFUSED[case]
    with pytest.raises(Exception, match=message):
        ask(c)
    assert c.read(table_entry=p4runtime_pb2.TableEntry()) == [c.entry("exactly", 5, action=c.action("forward", 2, 3))]
    assert device.send(0, 5) == [(2, 3)]


def test_a_batch_goes_on_after_an_error_and_tells_of_each(device: Device) -> None:
    c = device.client
    entries = [c.entry("exactly", a, action=c.action("forward", 1, a)) for a in (1, 1, 2, 3, 4, 5)]
    with pytest.raises(RefusedError, match="ALREADY_EXISTS"):
        c.write(*(UPDATE(type=UPDATE.INSERT, entity=p4runtime_pb2.Entity(table_entry=e)) for e in entries[:5]))
    assert len(c.read(table_entry=c.entry("exactly"))) == 4
    with pytest.raises(RefusedError, match=r"RESOURCE_EXHAUSTED.*full: its size is 4"):
        c.insert(table_entry=entries[5])
