"""Links of the running switch as hosts see them: down and up again, deleted, with VLAN tags, many, and busy without end."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from inalab.switches.embedded.control import SocketControl
from inalab.switches.embedded.target import EmbeddedSwitch, EmbeddedTarget
from inalab.switches.target import on_interfaces, tell
from tests.interfaces import ETH_P_ALL, SOL_PACKET, far_end
from tests.network.test_ptf_scenarios import isolated_test
from tests.network.wire import MACS, WIRE, passes, received, run, wire

TO_CLONE = bytes.fromhex("0200000000c1020000000001")


def again(sockets: list[socket.socket], frame: bytes) -> None:
    """Wait until a link that was set up passes frames both ways, which takes the kernel up to a second."""
    for source, sink in (sockets, sockets[::-1]):
        for far in (source, sink):
            far.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)  # what it kept of the link that was down
            far.settimeout(0.05)
        for _ in range(100):
            with suppress(OSError):
                source.send(frame)
                if received(sink) == frame:
                    break
        else:
            pytest.fail("no frame passes")
        for far in (source, sink):
            with suppress(TimeoutError):
                while received(far):
                    pass
            far.settimeout(2.0)
    passes(sockets, frame)


def ticks(switch: EmbeddedSwitch) -> float:
    """Seconds of processor time that the switch has used."""
    fields = Path(f"/proc/{switch.dataplane()}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def idle(switch: EmbeddedSwitch) -> bool:
    """Whether the switch uses no processor time while nothing is sent."""
    time.sleep(0.1)
    before = ticks(switch)
    time.sleep(0.4)
    return ticks(switch) - before <= 0.03


@pytest.mark.parametrize("end", ["s0", "p0"])
def test_a_link_that_was_down_carries_packets_again(end: str) -> None:
    def body() -> None:
        sockets, switch = wire()
        frame = MACS + b"\x88\xb5" + b"payload" * 9
        passes(sockets, frame)
        for _ in range(2):
            run(f"ip link set {end} down")
            assert idle(switch)
            with pytest.raises(OSError, match="Network is down") if end == "p0" else pytest.raises(TimeoutError):
                sockets[0].settimeout(0.1)
                sockets[0].send(frame)
                received(sockets[1])
            sockets[1].send(frame)
            run(f"ip link set {end} up")
            again(sockets, frame)
        if end == "s0":
            assert "port 0: interface s0: Network is down" in switch.log.read_text()
        switch.stop(deleteIntfs=False)

    isolated_test(body)


def test_an_interface_that_is_deleted_costs_no_processor_time() -> None:
    def body() -> None:
        sockets, switch = wire(3)
        run("ip link delete s0")
        assert idle(switch)
        sockets[1].send(MACS + bytes(60))
        control = switch.control()
        while not control.ports()[0]["send_errors"]:
            time.sleep(0.01)
        assert idle(switch)
        assert control.ports()[1]["received"] == 1
        switch.stop(deleteIntfs=False)

    isolated_test(body)


TAGS = {
    "802.1Q": "8100a005",
    "priority tag": "8100e000",
    "tag of zeros": "81000000",
    "802.1ad": "88a80064",
    "two tags": "88a8006481000007",
    "two 802.1Q tags": "8100000281000003",
    "three tags": "88a80064810000078100000a",
}


def test_vlan_tags_stay_in_the_packet() -> None:
    def body() -> None:
        sockets, switch = wire(3)
        tell(switch, ["mirroring_add 100 2"])
        for name, tags in TAGS.items():
            most = 1518 if tags.startswith("8100") else 1514  # what a socket may send on an MTU of 1500
            for size in (64, most):
                frame = (MACS + bytes.fromhex(tags) + b"\x88\xb5" + bytes(range(250)) * 7)[:size]
                passes(sockets[:2], frame)
                sockets[0].send(TO_CLONE + frame[12:])
                assert [received(far) for far in sockets[1:]] == [TO_CLONE + frame[12:]] * 2, name
        switch.stop(deleteIntfs=False)

    isolated_test(body)


def test_a_packet_beyond_the_mtu_is_a_send_error() -> None:
    def body() -> None:
        sockets, switch = wire()
        run("ip link set s1 mtu 500")
        frames = [MACS + b"\x88\xb5" + bytes(n) for n in (100, 1000, 486, 487, 500, 501, 505, 50)]
        for frame in frames:
            sockets[0].send(frame)
        assert [len(received(sockets[1])) for _ in range(5)] == [114, 500, 501, 514, 64]
        assert switch.control().ports()[1] == {**switch.control().ports()[1], "sent": 5, "send_errors": 3, "queue_drops": 0}
        switch.stop(deleteIntfs=False)

    isolated_test(body)


def test_what_the_mtu_allows_passes_whenever_it_was_set() -> None:
    """P4-utils sets 9,500 bytes once the switches run. What does not fit in the ring's places comes whole and in its order."""

    def body() -> None:
        sockets, switch = wire()
        for name in ("s0", "p0", "s1", "p1"):
            run(f"ip link set {name} mtu 9500")
        for size in (64, 1514, 1960, 2048, 4000, 9514):
            passes(sockets, (MACS + b"\x88\xb5" + bytes(range(251)) * 40)[:size])
            passes(sockets, (MACS + b"\x81\x00\xa0\x05\x88\xb5" + bytes(range(251)) * 40)[:size])
        burst = [(MACS + b"\x88\xb5" + bytes([n]) * 9500)[: 100 if n % 3 else 9000 + n] for n in range(60)]
        sockets[1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        for frame in burst:
            sockets[0].send(frame)
        assert [received(sockets[1]) for _ in burst] == burst
        assert [(p["received"], p["oversize"]) for p in switch.control().ports().values()] == [(12 + 60, 0), (12, 0)]
        switch.stop(deleteIntfs=False)

    isolated_test(body)


def test_a_packet_that_is_dropped_for_its_size_is_told_once() -> None:
    def body() -> None:
        sockets, switch = wire()
        run("ip link set s0 mtu 12000")
        run("ip link set p0 mtu 12000")
        for size in (10240, 10241, 11000):
            sockets[0].send((MACS + b"\x88\xb5" + bytes(12000))[:size])
        passes(sockets, MACS + b"\x88\xb5" + bytes(100))
        assert switch.control().ports()[0]["oversize"] == 2
        wording = [line for line in Path("/run/wire.log").read_text().splitlines() if "dropped" in line]
        assert wording == ["port 0: a packet of 10241 bytes was dropped: at most 10240 are taken in"]
        switch.stop(deleteIntfs=False)

    isolated_test(body)


def test_a_packet_that_clones_itself_for_ever_leaves_commands_and_an_end() -> None:
    """As on simple_switch it occupies a processor; unlike there, other packets and commands have their turns."""

    def body() -> None:
        sockets = [far_end(port) for port in range(4)]
        target = EmbeddedTarget(Path("tests/programs/endless.p4"), {})
        switch = on_interfaces(target.switch("endless", Path("/run"), seed=0), {port: f"s{port}" for port in range(4)})
        assert isinstance(switch, EmbeddedSwitch)
        control = tell(
            switch,
            [
                "mirroring_add 100 1",
                "mc_mgrp_create 5",
                "mc_node_create 1 1 2 3",
                "mc_node_associate 5 0",
                "mirroring_add_mc 101 5",
            ],
        )
        for op in (3, 5, 2):  # to itself, to a group of three, through ingress
            sockets[0].send(MACS + b"\x12\x34" + struct.pack(">BH", op, 0))
            sockets[0].send(MACS + b"\x12\x34" + struct.pack(">BH", 1, 0))
        control.command("get_time_elapsed")
        busy = control.ports()
        time.sleep(0.2)
        for _ in range(20):
            control.command("show_copies")
        assert control.ports()[1]["sent"] > busy[1]["sent"]
        control.command("mirroring_delete 101")
        switch.stop(deleteIntfs=False)
        assert switch.exit_code() == 0

    isolated_test(body)


def test_sixty_four_ports() -> None:
    """More ports than events of one turn."""

    def body() -> None:
        lines = [f"link add s{n} type veth peer name p{n}\nlink set s{n} up\nlink set p{n} up" for n in range(64)]
        subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), text=True, check=True)
        switch = on_interfaces(EmbeddedTarget(WIRE, {}).switch("wire", Path("/run"), seed=0), {n: f"s{n}" for n in range(64)})
        sockets = []
        for n in range(64):
            made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            made.setsockopt(SOL_PACKET, 23, 1)
            made.bind((f"p{n}", 0))
            made.settimeout(2.0)
            sockets.append(made)
        for turn in range(3):
            for n, far in enumerate(sockets):
                far.send(MACS + b"\x88\xb5" + struct.pack(">HH", turn, n) + bytes(60))
            for n, far in enumerate(sockets):
                assert struct.unpack_from(">HH", far.recv(4096), 14) == (turn, n ^ 1)
        control = switch.control()
        assert isinstance(control, SocketControl)
        assert [p["received"] for p in control.ports().values()] == [3] * 64
        switch.stop(deleteIntfs=False)

    isolated_test(body)
