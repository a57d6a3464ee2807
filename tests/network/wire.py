"""A switch that joins two ports, tests/programs/wire.p4, with a socket at the far end of each."""

from __future__ import annotations

import socket
import struct
import subprocess
from pathlib import Path

from inalab.switches.embedded.target import EmbeddedSwitch, EmbeddedTarget
from inalab.switches.target import on_interfaces
from tests.interfaces import SOL_PACKET, far_end

WIRE = Path("tests/programs/wire.p4")
PACKET_AUXDATA = 8
VLAN_VALID, VLAN_TPID_VALID = 1 << 4, 1 << 6
MACS = bytes.fromhex("020000000002020000000001")


def run(command: str) -> None:
    subprocess.run(command.split(), check=True)


def wire(ports: int = 2) -> tuple[list[socket.socket], EmbeddedSwitch]:
    """A switch on s0, s1, … with a socket at the far end of each."""
    sockets = [far_end(port) for port in range(ports)]
    switch = EmbeddedTarget(WIRE, {}).switch("wire", Path("/run"), seed=0)
    on_interfaces(switch, {port: f"s{port}" for port in range(ports)})
    for far in sockets:
        far.settimeout(2.0)
        far.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    return sockets, switch


def received(far: socket.socket) -> bytes:
    """The next frame, with the tag that the kernel keeps beside it put back."""
    data, wording, _, _ = far.recvmsg(16384, 256)
    for level, kind, content in wording:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            status, _, _, _, _, tci, type_ = struct.unpack_from("=IIIHHHH", content)
            if status & VLAN_VALID:
                tag = struct.pack(">HH", type_ if status & VLAN_TPID_VALID else 0x8100, tci)
                return data[:12] + tag + data[12:]
    return data


def passes(sockets: list[socket.socket], frame: bytes) -> None:
    for source, sink in (sockets, sockets[::-1]):
        source.send(frame)
        assert received(sink) == frame
