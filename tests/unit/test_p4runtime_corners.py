"""What an adversary found in the P4Runtime server."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from p4.v1 import p4runtime_pb2

from inalab.switches.embedded.build import build
from inalab.switches.embedded.compiler import check_p4
from inalab.switches.embedded.control import SocketControl
from inalab.switches.embedded.offline import OfflineSwitch
from inalab.switches.p4runtime.p4info import p4info
from inalab.switches.p4runtime.server import P4RuntimeServer
from tests.p4runtime_client import UPDATE, Client, RefusedError, octets
from tests.p4runtime_device import PROGRAM, Device, info_of, serving


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    with serving(tmp_path) as made:
        yield made


def _group(c: Client, number: int, weights: dict[int, int]) -> Any:
    made = p4runtime_pb2.ActionProfileGroup(action_profile_id=c.id("action_profiles", "choice"), group_id=number)
    for member, weight in weights.items():
        made.members.add(member_id=member, weight=weight)
    return made


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
        c.insert(action_profile_group=_group(c, 1, {1: 3}))
        for number, port in ((1, 5), (2, 6)):
            c.insert(action_profile_member=make("other", number, port))
        both = _group(c, 1, {1: 1, 2: 1})
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
        other = type(info_of()).FromString(info_of().SerializeToString())
        if change == "empty":
            other = type(info_of())()
        elif change == "match type":
            other.tables[0].match_fields[0].match_type = 3
        elif change == "scope":
            other.tables[0].action_refs[0].scope = 1
        else:
            other.registers[0].type_spec.bitstring.bit.bitwidth = 17
        with pytest.raises(RefusedError, match="INVALID_ARGUMENT"):
            device.client.set_pipeline(other)


def test_streams_leave_room_for_requests(device: Device) -> None:
    others = [Client(device.address, info_of(), election=10 + i) for i in range(63)]
    for other in others:
        other.arbitrate()
    late = Client(device.address, info_of(), election=5)
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
    server = P4RuntimeServer(info_of(), SocketControl(commands, timeout=0.5), packets=packets)
    server.start([address])
    client = Client(address, info_of())
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
