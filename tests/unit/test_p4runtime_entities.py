"""Action profiles, counters, meters, registers, value sets and replication over P4Runtime."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from p4.v1 import p4data_pb2, p4runtime_pb2

from tests.p4runtime_client import Client, RefusedError, octets
from tests.p4runtime_device import Device, serving


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    with serving(tmp_path) as made:
        yield made


# --- profiles


def member(c: Client, number: int, port: int) -> Any:
    profile = c.id("action_profiles", "choice")
    return p4runtime_pb2.ActionProfileMember(action_profile_id=profile, member_id=number, action=c.action("spread", port))


def group(c: Client, number: int, **weights: int) -> Any:
    made = p4runtime_pb2.ActionProfileGroup(action_profile_id=c.id("action_profiles", "choice"), group_id=number)
    for name, weight in weights.items():
        made.members.add(member_id=int(name[1:]), weight=weight)
    return made


def ports(device: Device, a: int) -> list[int]:
    """How many of twelve flows go to each of the ports 1 to 4."""
    out = [device.send(4, a, c=n) for n in range(12)]
    return [sum(port == p for ((port, _),) in out) for p in range(1, 5)]


def test_groups_share_by_weight_and_follow_their_members(device: Device) -> None:
    c = device.client
    for number, port in ((11, 1), (12, 2), (13, 3)):
        c.insert(action_profile_member=member(c, number, port))
    c.insert(action_profile_group=group(c, 1, m11=1, m12=3))
    c.insert(table_entry=c.entry("spread_out", 7, action=p4runtime_pb2.TableAction(action_profile_group_id=1)))
    c.insert(table_entry=c.entry("spread_out", 8, action=p4runtime_pb2.TableAction(action_profile_member_id=13)))
    assert ports(device, 7) == [3, 9, 0, 0] and ports(device, 8) == [0, 0, 12, 0]
    c.modify(action_profile_member=member(c, 12, 4))
    assert ports(device, 7) == [3, 0, 0, 9]
    c.modify(action_profile_group=group(c, 1, m12=1, m13=2))
    assert ports(device, 7) == [0, 0, 8, 4]
    assert c.read(action_profile_group=p4runtime_pb2.ActionProfileGroup()) == [group(c, 1, m12=1, m13=2)]
    assert [m.member_id for m in c.read(action_profile_member=p4runtime_pb2.ActionProfileMember())] == [11, 12, 13]
    with pytest.raises(RefusedError, match="still used"):
        c.delete(action_profile_group=group(c, 1))
    with pytest.raises(RefusedError, match="still used"):
        c.delete(action_profile_member=member(c, 12, 4))
    with pytest.raises(RefusedError, match="NOT_FOUND"):
        c.insert(action_profile_group=group(c, 2, m99=1))
    for entry in (7, 8):
        c.delete(table_entry=c.entry("spread_out", entry))
    c.delete(action_profile_group=group(c, 1))
    for number in (11, 12, 13):
        c.delete(action_profile_member=member(c, number, 0))
    with device.server.lock:
        assert device.switch.command("act_prof_dump choice") == ""


def test_action_sets_live_as_long_as_their_entries(device: Device) -> None:
    c = device.client

    def actions(*weights: int) -> Any:
        made = p4runtime_pb2.TableAction()
        for i, weight in enumerate(weights):
            made.action_profile_action_set.action_profile_actions.add(action=c.action("spread", i + 1), weight=weight)
        return made

    c.insert(table_entry=c.entry("spread_out", 7, action=actions(1, 2)))
    assert ports(device, 7) == [4, 8, 0, 0]
    assert c.read(table_entry=c.entry("spread_out")) == [c.entry("spread_out", 7, action=actions(1, 2))]
    c.modify(table_entry=c.entry("spread_out", 7, action=actions(3, 0 + 1)))
    assert ports(device, 7) == [9, 3, 0, 0]
    with pytest.raises(RefusedError, match="above 0"):
        c.insert(table_entry=c.entry("spread_out", 8, action=actions(1, 0)))
    with pytest.raises(RefusedError, match="refer to members or groups"):
        c.insert(table_entry=c.entry("spread_out", 8, action=c.action("spread", 1)))
    c.delete(table_entry=c.entry("spread_out", 7))
    with device.server.lock:
        assert device.switch.command("act_prof_dump choice") == ""


# --- counters, meters, registers, value sets


def test_counters_are_read_and_written(device: Device) -> None:
    c = device.client
    c.insert(table_entry=c.entry("exactly", 5, action=c.action("forward", 2, 3)))
    for _ in range(3):
        device.send(0, 5)
    number = c.id("counters", "seen")
    (found,) = c.read(counter_entry=p4runtime_pb2.CounterEntry(counter_id=number, index=p4runtime_pb2.Index(index=0)))
    assert (found.data.packet_count, found.data.byte_count) == (3, 24)
    assert len(c.read(counter_entry=p4runtime_pb2.CounterEntry(counter_id=number))) == 4
    data = p4runtime_pb2.CounterData(packet_count=7, byte_count=9)
    c.modify(counter_entry=p4runtime_pb2.CounterEntry(counter_id=number, index=p4runtime_pb2.Index(index=2), data=data))
    assert [e.data.packet_count for e in c.read(counter_entry=p4runtime_pb2.CounterEntry(counter_id=number))] == [3, 0, 7, 0]
    direct = p4runtime_pb2.DirectCounterEntry(table_entry=c.entry("exactly", 5))
    assert [e.data.packet_count for e in c.read(direct_counter_entry=direct)] == [3]
    direct.data.packet_count = 100
    c.modify(direct_counter_entry=direct)
    device.send(0, 5)
    asked = c.entry("exactly", 5, counter_data=p4runtime_pb2.CounterData())
    assert [e.counter_data.packet_count for e in c.read(table_entry=asked)] == [101]
    with pytest.raises(RefusedError, match="has 4 cells, no cell 4"):
        c.read(counter_entry=p4runtime_pb2.CounterEntry(counter_id=number, index=p4runtime_pb2.Index(index=4)))
    with pytest.raises(RefusedError, match="always there"):
        c.insert(counter_entry=p4runtime_pb2.CounterEntry(counter_id=number))


def test_meters_colour(device: Device) -> None:
    c = device.client
    config = p4runtime_pb2.MeterConfig(cir=0, cburst=1, pir=0, pburst=2)
    c.insert(table_entry=c.entry("paced", 5, action=c.action("colour"), meter_config=config))
    assert [device.send(3, 5)[0][1] for _ in range(4)] == [0, 1, 2, 2]
    c.modify(direct_meter_entry=p4runtime_pb2.DirectMeterEntry(table_entry=c.entry("paced", 5), config=config))
    assert device.send(3, 5)[0][1] == 0
    number = c.id("meters", "pace")
    c.modify(meter_entry=p4runtime_pb2.MeterEntry(meter_id=number, index=p4runtime_pb2.Index(index=1),
                                                  config=p4runtime_pb2.MeterConfig(cir=500, cburst=4, pir=1000, pburst=8)))  # fmt: skip
    unset, found = c.read(meter_entry=p4runtime_pb2.MeterEntry(meter_id=number))
    assert not unset.HasField("config") and (found.config.cir, found.config.cburst, found.config.pir, found.config.pburst) == (
        500,
        4,
        1000,
        8,
    )


def test_registers_are_read_and_written(device: Device) -> None:
    c = device.client
    number = c.id("registers", "kept")
    data = p4data_pb2.P4Data(bitstring=b"\x12\x34")
    c.modify(register_entry=p4runtime_pb2.RegisterEntry(register_id=number, index=p4runtime_pb2.Index(index=2), data=data))
    assert device.send(8, 2) == [(1, 0x1234)]
    assert [e.data.bitstring for e in c.read(register_entry=p4runtime_pb2.RegisterEntry(register_id=number))] == [
        b"\0",
        b"\0",
        b"\x12\x34",
        b"\0",
    ]


def test_a_value_set_is_what_was_last_written(device: Device) -> None:
    c = device.client

    def values(*numbers: int) -> Any:
        made = p4runtime_pb2.ValueSetEntry(value_set_id=c.id("value_sets", "strange"))
        for number in numbers:
            match = made.members.add().match.add(field_id=1)
            match.exact.value = octets(number)
        return made

    c.modify(value_set_entry=values(50, 51))
    assert [device.send(op) for op in (50, 51, 52)] == [[(1, 0xFFFF)], [(1, 0xFFFF)], [(1, 0)]]
    c.modify(value_set_entry=values(52))
    assert [device.send(op) for op in (50, 51, 52)] == [[(1, 0)], [(1, 0)], [(1, 0xFFFF)]]
    assert c.read(value_set_entry=p4runtime_pb2.ValueSetEntry()) == [values(52)]
    with pytest.raises(RefusedError, match="room for 4"):
        c.modify(value_set_entry=values(1, 2, 3, 4, 5))


# --- replication


def test_groups_and_clone_sessions(device: Device) -> None:
    c, engine = device.client, p4runtime_pb2.PacketReplicationEngineEntry

    def group_of(*replicas: tuple[int, int]) -> Any:
        made = engine()
        made.multicast_group_entry.multicast_group_id = 5
        for port, instance in replicas:
            made.multicast_group_entry.replicas.add(egress_port=port, instance=instance)
        return made

    c.insert(packet_replication_engine_entry=group_of((1, 1), (2, 1), (1, 2)))
    assert [port for port, _ in device.send(6)] == [1, 1, 2]
    c.modify(packet_replication_engine_entry=group_of((3, 1)))
    assert [port for port, _ in device.send(6)] == [3]
    session = engine()
    session.clone_session_entry.session_id = 9
    session.clone_session_entry.replicas.add(port=b"\x04", instance=1)
    c.insert(packet_replication_engine_entry=session)
    assert [port for port, _ in device.send(7)] == [2, 4]
    assert c.read(packet_replication_engine_entry=engine()) == [group_of((3, 1)), session]
    c.set_pipeline()  # everything is as at the start
    assert device.send(6) == [] and [port for port, _ in device.send(7)] == [2]
    assert c.read(packet_replication_engine_entry=engine()) == []
    c.insert(packet_replication_engine_entry=session)
    c.delete(packet_replication_engine_entry=session)
    assert [port for port, _ in device.send(7)] == [2]
    with pytest.raises(RefusedError, match="given twice"):
        c.insert(packet_replication_engine_entry=group_of((1, 1), (1, 1)))
