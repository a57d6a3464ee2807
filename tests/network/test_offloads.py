"""What the kernel leaves to interfaces: the checksums of plain hosts' packets, and the cutting of TCP's data into packets."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP, UDP, IPOption
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, PadN
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

from inalab.switches.embedded.target import EmbeddedSwitch, EmbeddedTarget
from inalab.switches.target import on_interfaces
from tests.interfaces import SOL_PACKET
from tests.network.test_ptf_scenarios import isolated_test
from tests.network.wire import MACS, WIRE, passes, received, run, wire


class HostProcess:
    """A network namespace of a host's own, held by a sleeping process."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process = subprocess.Popen(["unshare", "--net", "sleep", "300"])
        while os.readlink(f"/proc/{self.process.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            time.sleep(0.005)


def run_at(host: HostProcess, command: str) -> None:
    subprocess.run(["nsenter", "-t", str(host.process.pid), "-n", *command.split()], check=True, stdout=subprocess.DEVNULL)


def end(hosts: list[HostProcess]) -> None:
    for host in hosts:
        host.process.kill()
        host.process.wait()


def plain_hosts(before: Callable[[], Any] = lambda: None) -> list[HostProcess]:
    """Two hosts at h0 and h1, veth peers of s0 and s1; `before` is called before the hosts take their ends."""
    for number in range(2):
        run(f"ip link add s{number} type veth peer name h{number}")
        run(f"ip link set s{number} up")
    before()
    hosts = [HostProcess(number) for number in range(2)]
    for host in hosts:
        run(f"ip link set h{host.number} netns {host.process.pid}")
        run_at(host, f"ip address add 10.0.0.{host.number + 1}/24 dev h{host.number}")
        run_at(host, f"ip address add fd00::{host.number + 1}/64 dev h{host.number} nodad")
        run_at(host, f"ip link set h{host.number} up")
    return hosts


TAKE = """
import socket, sys
listener = socket.create_server((sys.argv[1], 5001), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
print("listening", flush=True)
connection, _ = listener.accept()
connection.settimeout(20)
total = 0
while data := connection.recv(1 << 16):
    total += len(data)
print(total, flush=True)
"""
GIVE = "import socket, sys; s = socket.create_connection((sys.argv[1], 5001), 20); s.sendall(bytes(int(sys.argv[2])))"


def transfer(hosts: list[HostProcess], to: str, size: int) -> int:
    """Bytes that arrive at the second host of those that the first sends by TCP."""
    at = [["nsenter", "-t", str(host.process.pid), "-n", "python3", "-c"] for host in hosts]
    taker = subprocess.Popen([*at[1], TAKE, to], stdout=subprocess.PIPE, text=True)
    assert taker.stdout is not None
    assert taker.stdout.readline() == "listening\n"
    subprocess.run([*at[0], GIVE, to, str(size)], check=True, timeout=60)
    wording, _ = taker.communicate(timeout=60)
    return int(wording)


@pytest.mark.parametrize("to", ["10.0.0.2", "fd00::2"])
def test_tcp_between_plain_hosts_arrives(to: str) -> None:
    """As in docs/tutorials/own-p4.md: the switch starts while both ends of a link are here, and the hosts take theirs then."""

    def body() -> None:
        for setting in ("all", "default"):
            Path(f"/proc/sys/net/ipv6/conf/{setting}/disable_ipv6").write_text("0")
        switch = EmbeddedTarget(WIRE, {}).switch("wire", Path("/run"), seed=0)
        hosts = plain_hosts(before=lambda: on_interfaces(switch, {0: "s0", 1: "s1"}))
        assert transfer(hosts, to, 5_000_000) == 5_000_000
        log = switch.log.read_text()
        assert "port 0: segmentation and checksum offloads of h0, the peer of s0, were on; they are off now" in log
        assert "exceeds" not in log
        counted = switch.control().ports()
        assert all(port["oversize"] == port["send_errors"] == 0 for port in counted.values())
        switch.stop(deleteIntfs=False)
        end(hosts)

    isolated_test(body)


def test_hosts_elsewhere_are_named_what_to_run() -> None:
    """Checksums are finished by the switch; segments are not cut, and the sentence that says so is right."""

    def body() -> None:
        hosts = plain_hosts()
        switch = on_interfaces(EmbeddedTarget(WIRE, {}).switch("wire", Path("/run"), seed=0), {0: "s0", 1: "s1"})
        assert isinstance(switch, EmbeddedSwitch)
        assert transfer(hosts, "10.0.0.2", 1000) == 1000
        assert switch.log.read_text() == "ready\n"
        transfer(hosts, "10.0.0.2", 20_000)
        log = switch.log.read_text()
        assert log.count("ethtool -K IFACE tso off gso off") == 1
        for host in hosts:
            run_at(host, f"ethtool -K h{host.number} tso off gso off")
        control = switch.control()
        before = control.ports()
        assert transfer(hosts, "10.0.0.2", 5_000_000) == 5_000_000
        assert [p["oversize"] for p in control.ports().values()] == [p["oversize"] for p in before.values()]
        switch.stop(deleteIntfs=False)
        end(hosts)

    isolated_test(body)


PACKET_VNET_HDR = 15


def unfinished(far: socket.socket, frame: bytes, start: int, offset: int) -> None:
    """Send a frame as a kernel does that leaves the checksum of what begins at `start` to the interface."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
        sender.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        sender.bind(far.getsockname()[:2])
        sender.send(struct.pack("=BBHHHH", 1, 0, 0, 0, start, offset) + frame)


def frames_with_checksums() -> Iterator[tuple[bytes, int, int]]:
    """TCP and UDP with right checksums, where the transport header begins, and where in it the checksum is."""
    for tags in ([], [5], [5, 6]):
        for network in (IP(src="10.0.0.1", dst="10.0.0.2"), IP(dst="10.0.0.2", options=[IPOption(b"\x01" * 4)]), IPv6(dst="fd00::2"),
                        IPv6(dst="fd00::2") / IPv6ExtHdrDestOpt(options=[PadN(optdata=bytes(12))])):  # fmt: skip
            for transport in (TCP(sport=1, dport=2, seq=77), UDP(sport=3, dport=4)):
                for size in (0, 1, 2, 1001, 1400):
                    packet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
                    for tag in tags:
                        packet /= Dot1Q(vlan=tag)
                    packet = packet / network / transport / Raw(bytes(i * 7 % 251 for i in range(size)))
                    frame, tail = bytes(packet), len(bytes(transport / Raw(bytes(size))))
                    yield frame, len(frame) - tail, 16 if TCP in packet else 6


def test_unfinished_checksums_are_finished() -> None:
    def body() -> None:
        sockets, switch = wire()
        run("ethtool -K p0 tx on")  # the switch has turned it off
        for frame, start, offset in frames_with_checksums():
            at = start + offset
            for tail in (b"", b"\0" * 7):  # padding is no part of what is summed
                left = frame[:at] + b"\x12\x34" + frame[at + 2 :] + tail
                unfinished(sockets[0], left, start, offset)
                assert received(sockets[1]) == frame + tail
        short = MACS + b"\x08\x00\x45\x00\x00\xff" + bytes(5) + b"\x06" + bytes(40)  # says that it is longer than it is
        unfinished(sockets[0], short, 34, 16)
        assert len(received(sockets[1])) == len(short)
        passes(sockets, frame[:at] + b"\x12\x34" + frame[at + 2 :])  # a wrong checksum that is no unfinished one stays
        switch.stop(deleteIntfs=False)

    isolated_test(body)


def test_a_udp_checksum_of_zero_is_written_as_ones() -> None:
    def body() -> None:
        sockets, switch = wire()
        run("ethtool -K p0 tx on")
        addresses = bytes([10, 0, 0, 1, 10, 0, 0, 2])
        port = 0xFFFF - sum(struct.unpack(">8H", addresses + struct.pack(">HHHH", 17, 8, 4, 8))) % 0xFFFF
        frame = bytes(Ether(dst="02:00:00:00:00:02") / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=port, dport=4, chksum=1))
        unfinished(sockets[0], frame, 34, 6)
        assert received(sockets[1])[40:42] == b"\xff\xff"
        switch.stop(deleteIntfs=False)

    isolated_test(body)
