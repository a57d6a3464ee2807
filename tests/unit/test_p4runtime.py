"""The P4Runtime server over gRPC, before a switch without interfaces."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from p4.v1 import p4data_pb2, p4runtime_pb2

from switches.embedded.build import build
from switches.embedded.compiler import check_p4
from switches.embedded.control import SocketControl
from switches.embedded.offline import OfflineSwitch
from switches.p4runtime.p4info import p4info
from switches.p4runtime.server import P4RuntimeServer
from tests.p4runtime_client import UPDATE, Client, RefusedError, octets

PROGRAM = Path("tests/programs/runtime.p4").resolve()
INFO = p4info(check_p4(PROGRAM))


@dataclass
class Device:
    """A switch, its server, and the client that is primary."""

    switch: OfflineSwitch
    server: P4RuntimeServer
    client: Client
    address: str

    def send(self, op: int, a: int = 0, b: int = 0, c: int = 0, port: int = 0) -> list[tuple[int, int]]:
        """Where a packet goes, and the b that it has there; -1 for what goes to the controller."""
        with self.server.lock:
            out = self.switch.send(port, bytes([op, a]) + b.to_bytes(2, "big") + c.to_bytes(4, "big"))
        return sorted((p, int.from_bytes(data[2:4], "big")) for p, data in out)


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    address = f"unix:{tmp_path}/p4runtime"
    with OfflineSwitch(build(PROGRAM)) as switch:
        server = P4RuntimeServer(INFO, switch)
        server.start([address])
        client = Client(address, INFO)
        assert client.arbitrate().status.code == 0
        client.set_pipeline()
        yield Device(switch, server, client, address)
        client.close()
        server.stop()


# --- tables


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


# --- the stream


def test_digests_and_idle_entries_are_told(device: Device) -> None:
    c = device.client
    c.insert(digest_entry=p4runtime_pb2.DigestEntry(digest_id=c.id("digests", "learn_t")))
    device.send(5, a=3, c=0xABCDEF, port=2)
    (data,) = c.next("digest").data
    assert [m.bitstring for m in data.struct.members[:2]] == [b"\xab\xcd\xef", b"\x02"] and data.struct.members[2].bool is False
    c.insert(table_entry=c.entry("exactly", 5, action=c.action("drop"), idle_timeout_ns=200_000_000))
    c.insert(table_entry=c.entry("exactly", 6, action=c.action("drop")))
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        device.send(0, 5)
        time.sleep(0.01)
    assert "idle_timeout_notification" not in c.received or c.received["idle_timeout_notification"].empty()
    (entry,) = c.next("idle_timeout_notification").table_entry
    assert entry == c.entry("exactly", 5, action=c.action("drop"), idle_timeout_ns=200_000_000)
    with pytest.raises(AssertionError):
        c.next("idle_timeout_notification", patience=0.4)  # told once


def test_the_highest_election_id_is_primary(device: Device) -> None:
    second = Client(device.address, INFO, election=2)
    assert second.arbitrate().status.code == 0
    assert device.client.next("arbitration").status.code == 6  # ALREADY_EXISTS
    with pytest.raises(RefusedError, match="PERMISSION_DENIED"):
        device.client.insert(table_entry=device.client.entry("exactly", 5, action=device.client.action("drop")))
    second.insert(table_entry=second.entry("exactly", 5, action=second.action("drop")))
    device.client.send(p4runtime_pb2.PacketOut(payload=b"x"))
    assert "only the primary" in device.client.next("error").message
    third = Client(device.address, INFO, election=2)
    with pytest.raises(AssertionError):
        third.arbitrate()
    assert "another client has election id 2" in third.ended.get(timeout=5).details()
    second.close()
    assert device.client.next("arbitration").status.code == 0
    assert len(device.client.read(table_entry=p4runtime_pb2.TableEntry())) == 1


def test_a_pipeline_of_another_program_is_refused(device: Device) -> None:
    c = device.client
    other = type(INFO).FromString(INFO.SerializeToString())
    other.tables[0].match_fields[0].bitwidth = 9
    with pytest.raises(RefusedError, match=r"Work\.exactly is another one in the program that runs"):
        c.set_pipeline(other)
    other.tables[0].preamble.name = "Work.nosuch"
    with pytest.raises(RefusedError, match=r"Work\.(nosuch|exactly) is not in the (program that runs|P4Info)"):
        c.set_pipeline(other)
    c.insert(table_entry=c.entry("exactly", 5, action=c.action("drop")))
    c.set_pipeline(action="VERIFY")
    c.set_pipeline(action="RECONCILE_AND_COMMIT")
    assert len(c.read(table_entry=c.entry("exactly"))) == 1
    c.set_pipeline()
    assert c.read(table_entry=c.entry("exactly")) == []
    answer = c.stub.GetForwardingPipelineConfig(p4runtime_pb2.GetForwardingPipelineConfigRequest())
    assert answer.config.p4info == INFO
    assert c.stub.Capabilities(p4runtime_pb2.CapabilitiesRequest()).p4runtime_api_version == "1.4.0"


def test_packets_go_to_the_controller_and_come_from_it(tmp_path: Path) -> None:
    """A switch with no port but the controller's."""
    packets, commands, address = tmp_path / "packets", tmp_path / "commands", f"unix:{tmp_path}/p4runtime"
    process = subprocess.Popen(
        [build(PROGRAM), "-i", f"510@unix:{packets}", "--socket", commands], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout and process.stdout.readline() == "ready\n"
    server = P4RuntimeServer(INFO, SocketControl(commands), packets=packets)
    server.start([address])
    client = Client(address, INFO)
    client.arbitrate()
    try:
        out = p4runtime_pb2.PacketOut(payload=bytes([0, 9]) + bytes(6))
        out.metadata.add(metadata_id=1, value=octets(510))
        out.metadata.add(metadata_id=2, value=b"\0")
        client.send(out)
        assert "no pipeline is set yet" in client.next("error").message
        client.set_pipeline()
        client.send(out)
        answer = client.next("packet")
        # the program sends on what follows the packet-out header, and the server takes its first bytes for a packet-in header
        assert [m.value for m in answer.metadata] == [b"\x09", b"\0"] and answer.payload == bytes(5)
        out.metadata[0].value = octets(512)
        client.send(out)
        error = client.next("error")
        assert "does not fit in 9 bits" in error.message and error.packet_out.packet_out == out
        del out.metadata[:]
        client.send(out)
        assert "a packet-out needs metadata port" in client.next("error").message
    finally:
        client.close()
        server.stop()
        process.terminate()
        assert process.wait(timeout=5) == 0
        process.stdout.close()
    assert not packets.exists() and not commands.exists()


def test_an_address_in_use_is_told(device: Device, tmp_path: Path) -> None:
    second = P4RuntimeServer(INFO, device.switch)
    with pytest.raises(OSError, match="cannot listen on"):
        second.start(["unix:/no/such/folder/p4runtime"])
    second.stop()


# --- what an adversary found


def test_members_of_one_profile_are_not_those_of_another(tmp_path: Path) -> None:
    program = tmp_path / "two.p4"
    text = PROGRAM.read_text().replace(
        "action_selector(HashAlgorithm.identity, 32, 8) choice;",
        "action_selector(HashAlgorithm.identity, 32, 8) choice; action_selector(HashAlgorithm.identity, 32, 8) other;",
    )
    table = "table spread_out { key = { hdr.probe.a : exact; hdr.probe.c : selector; } actions = { spread; drop; } implementation = choice; }"
    assert table in text
    text = text.replace(table, table + table.replace("spread_out", "second").replace("choice", "other"))
    program.write_text(
        text.replace("{ spread_out.apply(); }", "{ if (hdr.probe.b == 0) { spread_out.apply(); } else { second.apply(); } }")
    )
    info = p4info(check_p4(program))
    with OfflineSwitch(build(program)) as switch:
        server, address = P4RuntimeServer(info, switch), f"unix:{tmp_path}/p4runtime"
        server.start([address])
        c = Client(address, info)
        c.arbitrate()
        c.set_pipeline()

        def make(profile: str, number: int, port: int) -> Any:
            return p4runtime_pb2.ActionProfileMember(
                action_profile_id=c.id("action_profiles", profile), member_id=number, action=c.action("spread", port)
            )

        c.insert(action_profile_member=make("choice", 1, 1))
        c.insert(action_profile_group=group(c, 1, m1=3))
        for number, port in ((1, 5), (2, 6)):
            c.insert(action_profile_member=make("other", number, port))
        both = group(c, 1, m1=1, m2=1)
        both.action_profile_id = c.id("action_profiles", "other")
        c.insert(action_profile_group=both)
        c.insert(table_entry=c.entry("second", 7, action=p4runtime_pb2.TableAction(action_profile_group_id=1)))
        c.modify(action_profile_member=make("other", 1, 5))
        with server.lock:
            out = [switch.send(0, bytes([4, 7, 0, 1, 0, 0, 0, n]))[0][0] for n in range(4)]
        assert out == [5, 6, 5, 6]
        c.close()
        server.stop()


HALF_DONE: dict[str, Any] = {
    "a timeout beyond the switch's": {"idle_timeout_ns": 2**62},
    "a negative count": {"counter_data": p4runtime_pb2.CounterData(packet_count=-1)},
}


@pytest.mark.parametrize("case", HALF_DONE)
@pytest.mark.parametrize("verb", ["insert", "modify"])
def test_an_entry_with_a_bad_extra_is_refused_whole(device: Device, case: str, verb: str) -> None:
    c = device.client
    if verb == "modify":
        c.insert(table_entry=c.entry("exactly", 5, action=c.action("forward", 1, 1)))
    with pytest.raises(RefusedError, match="INVALID_ARGUMENT"):
        getattr(c, verb)(table_entry=c.entry("exactly", 5, action=c.action("forward", 2, 2), **HALF_DONE[case]))
    assert device.send(0, 5) == ([(1, 1)] if verb == "modify" else [])
    assert len(c.read(table_entry=c.entry("exactly"))) == (verb == "modify")


@pytest.mark.parametrize(("cir", "pir", "burst"), [(-1, 5, 1), (5, 4, 1), (1, 2, 2**40)])
def test_a_meter_that_cannot_be_is_refused_with_its_entry(device: Device, cir: int, pir: int, burst: int) -> None:
    c = device.client
    config = p4runtime_pb2.MeterConfig(cir=cir, cburst=burst, pir=pir, pburst=burst)
    with pytest.raises(RefusedError, match="INVALID_ARGUMENT"):
        c.insert(table_entry=c.entry("paced", 5, action=c.action("colour"), meter_config=config))
    assert device.send(3, 5) == [] and c.read(table_entry=c.entry("paced")) == []


def test_an_action_set_that_is_refused_leaves_nothing(device: Device) -> None:
    c = device.client
    made = p4runtime_pb2.TableAction()
    made.action_profile_action_set.action_profile_actions.add(action=c.action("spread", 1), weight=2)
    made.action_profile_action_set.action_profile_actions.add(action=c.action("forward", 1, 1), weight=1)
    with pytest.raises(RefusedError, match=r"INVALID_ARGUMENT.*no table of Work.choice has an action"):
        c.insert(table_entry=c.entry("spread_out", 7, action=made))
    with device.server.lock:
        assert device.switch.command("act_prof_dump choice") == ""


def test_rates_are_read_back_as_written(device: Device) -> None:
    c = device.client
    number = c.id("meters", "pace")
    config = p4runtime_pb2.MeterConfig(cir=123456789, cburst=7, pir=123456790, pburst=8)
    c.modify(meter_entry=p4runtime_pb2.MeterEntry(meter_id=number, index=p4runtime_pb2.Index(index=0), config=config))
    (found,) = c.read(meter_entry=p4runtime_pb2.MeterEntry(meter_id=number, index=p4runtime_pb2.Index(index=0)))
    assert found.config == config


def test_many_refusals_and_long_values_are_told_in_short(device: Device) -> None:
    c = device.client
    updates = [UPDATE(type=UPDATE.DELETE, entity=p4runtime_pb2.Entity(table_entry=c.entry("exactly", a))) for a in range(256)] * 4
    with pytest.raises(RefusedError, match=r"UNKNOWN.*1024 of 1024 updates failed"):
        c.write(*updates)
    entry = c.entry("exactly", 1, action=c.action("drop"))
    entry.match[0].exact.value = b"\xff" * 100_000
    with pytest.raises(RefusedError, match=r"OUT_OF_RANGE.*a number of 100000 bytes"):
        c.insert(table_entry=entry)


def test_numbers_that_no_enumeration_has_are_refused(device: Device) -> None:
    c = device.client
    c.insert(table_entry=c.entry("exactly", 5, action=c.action("forward", 1, 1)))
    with pytest.raises(RefusedError, match="INVALID_ARGUMENT"):
        c.write(UPDATE(type=17, entity=p4runtime_pb2.Entity(table_entry=c.entry("exactly", 5, action=c.action("forward", 2, 2)))))
    with pytest.raises(RefusedError, match="INVALID_ARGUMENT"):
        c.set_pipeline(action=55)  # type: ignore[arg-type]
    with pytest.raises(RefusedError, match="UNIMPLEMENTED"):
        c.write(role="reader")
    engine = p4runtime_pb2.PacketReplicationEngineEntry()
    engine.multicast_group_entry.multicast_group_id = 5
    engine.multicast_group_entry.replicas.add(port=b"\xff" * 3000, instance=1)
    with pytest.raises(RefusedError, match="OUT_OF_RANGE"):
        c.insert(packet_replication_engine_entry=engine)
    engine.multicast_group_entry.replicas[0].port = b""
    with pytest.raises(RefusedError, match="has no value"):
        c.insert(packet_replication_engine_entry=engine)
    assert device.send(0, 5) == [(1, 1)]


def test_a_p4info_that_lacks_something_is_refused(device: Device) -> None:
    for change in ("empty", "match type", "scope", "register"):
        other = type(INFO).FromString(INFO.SerializeToString())
        if change == "empty":
            other = type(INFO)()
        elif change == "match type":
            other.tables[0].match_fields[0].match_type = 3
        elif change == "scope":
            other.tables[0].action_refs[0].scope = 1
        else:
            other.registers[0].type_spec.bitstring.bit.bitwidth = 17
        with pytest.raises(RefusedError, match="INVALID_ARGUMENT"):
            device.client.set_pipeline(other)


def test_streams_leave_room_for_requests(device: Device) -> None:
    others = [Client(device.address, INFO, election=10 + i) for i in range(63)]
    for other in others:
        other.arbitrate()
    late = Client(device.address, INFO, election=5)
    assert "64 clients are connected" in late.ended.get(timeout=5).details()
    assert device.client.stub.Capabilities(p4runtime_pb2.CapabilitiesRequest(), timeout=5).p4runtime_api_version
    for other in others:
        other.close()


def test_a_lost_controller_connection_is_made_again(tmp_path: Path) -> None:
    packets, commands, address = tmp_path / "packets", tmp_path / "commands", f"unix:{tmp_path}/p4runtime"
    process = subprocess.Popen(
        [build(PROGRAM), "-i", f"510@unix:{packets}", "--socket", commands], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout and process.stdout.readline() == "ready\n"
    server = P4RuntimeServer(INFO, SocketControl(commands, timeout=0.5), packets=packets)
    server.start([address])
    client = Client(address, INFO)
    client.arbitrate()
    client.set_pipeline()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as intruder:
            intruder.connect(str(packets))
        time.sleep(0.6)
        out = p4runtime_pb2.PacketOut(payload=bytes([0, 9]) + bytes(6))
        out.metadata.add(metadata_id=1, value=octets(510))
        out.metadata.add(metadata_id=2, value=b"\0")
        client.send(out)
        assert client.next("packet").payload == bytes(5)
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(RefusedError, match="UNAVAILABLE"):
            client.insert(table_entry=client.entry("exactly", 5, action=client.action("drop")))
        process.send_signal(signal.SIGCONT)
        with pytest.raises(RefusedError, match="FAILED_PRECONDITION"):  # nobody knows what the switch has
            client.read(table_entry=client.entry("exactly"))
        client.set_pipeline()
        client.insert(table_entry=client.entry("exactly", 5, action=client.action("drop")))
        assert len(client.read(table_entry=client.entry("exactly"))) == 1
    finally:
        client.close()
        server.stop()
        process.terminate()
        process.wait(timeout=5)
        process.stdout.close()
