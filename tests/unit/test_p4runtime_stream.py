"""What goes over the stream: digests, idle entries, packets, and who is primary; and the pipeline."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from p4.v1 import p4runtime_pb2

from inalab.switches.embedded.build import build
from inalab.switches.embedded.control import SocketControl
from inalab.switches.p4runtime.server import P4RuntimeServer
from tests.p4runtime_client import Client, RefusedError, octets
from tests.p4runtime_device import PROGRAM, Device, info_of, serving


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    with serving(tmp_path) as made:
        yield made


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
    second = Client(device.address, info_of(), election=2)
    assert second.arbitrate().status.code == 0
    assert device.client.next("arbitration").status.code == 6  # ALREADY_EXISTS
    with pytest.raises(RefusedError, match="PERMISSION_DENIED"):
        device.client.insert(table_entry=device.client.entry("exactly", 5, action=device.client.action("drop")))
    second.insert(table_entry=second.entry("exactly", 5, action=second.action("drop")))
    device.client.send(p4runtime_pb2.PacketOut(payload=b"x"))
    assert "only the primary" in device.client.next("error").message
    third = Client(device.address, info_of(), election=2)
    with pytest.raises(AssertionError):
        third.arbitrate()
    assert "another client has election id 2" in third.ended.get(timeout=5).details()
    second.close()
    assert device.client.next("arbitration").status.code == 0
    assert len(device.client.read(table_entry=p4runtime_pb2.TableEntry())) == 1


def test_a_pipeline_of_another_program_is_refused(device: Device) -> None:
    c = device.client
    other = type(info_of()).FromString(info_of().SerializeToString())
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
    assert answer.config.p4info == info_of()
    assert c.stub.Capabilities(p4runtime_pb2.CapabilitiesRequest()).p4runtime_api_version == "1.4.0"


def test_packets_go_to_the_controller_and_come_from_it(tmp_path: Path) -> None:
    """A switch with no port but the controller's."""
    packets, commands, address = tmp_path / "packets", tmp_path / "commands", f"unix:{tmp_path}/p4runtime"
    process = subprocess.Popen(
        [build(PROGRAM), "-i", f"510@unix:{packets}", "--socket", commands], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout and process.stdout.readline() == "ready\n"
    server = P4RuntimeServer(info_of(), SocketControl(commands), packets=packets)
    server.start([address])
    client = Client(address, info_of())
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
    second = P4RuntimeServer(info_of(), device.switch)
    with pytest.raises(OSError, match="cannot listen on"):
        second.start(["unix:/no/such/folder/p4runtime"])
    second.stop()
