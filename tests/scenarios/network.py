"""What is not aggregation: source guard, forwarding, loss."""

from __future__ import annotations

import struct

from scapy.layers.inet import IP, TCP, UDP, IPOption
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw

from inalab.hosts.switchml import wire
from inalab.switches.commands import Commands
from inalab.switches.forwarding import by_packet, forward, forwarding
from inalab.switches.loss import Loss, link_seed, set_loss
from tests.packets import worker_station
from tests.scenarios.scenario import Scenario
from tests.scenarios.switchml import of_switchml

RECORDED_FROM = "02:fc:00:00:00:01"  # the interface of the machine that BMv2 ran on, which ARP would otherwise look up here


def guarded() -> Scenario:
    """What hosts may send: their own addresses, no tags, whole headers, no fragments and no options to a protocol's port."""
    mine, other = worker_station(0), worker_station(1)
    commands = forwarding(range(3), {worker_station(w).mac: w for w in range(3)}, {0: mine, 1: other})
    packets, tagged = [], []
    for source in (mine, other):
        ethernet = Ether(src=source.mac, dst=worker_station(2).mac)
        for ip in (mine.ip, other.ip):
            for port in (9, wire.UDP_PORT):
                datagram = UDP(sport=5, dport=port, chksum=0) / (b"x" * 24)
                packets += [
                    ethernet / IP(src=ip, dst="10.0.0.3") / datagram,
                    ethernet / IP(src=ip, dst="10.0.0.3", flags="MF") / datagram,
                    ethernet / IP(src=ip, dst="10.0.0.3", frag=3) / datagram,
                    *(ethernet / IP(src=ip, dst="10.0.0.3", options=[IPOption(b"\x01" * 4 * n)]) / datagram for n in (1, 3, 10)),
                    *(ethernet / IP(src=ip, dst="10.0.0.3", ihl=n) / datagram for n in (0, 4, 6, 15)),
                    ethernet / IP(src=ip, dst="10.0.0.3", version=6) / datagram,
                ]
            packets += [
                ethernet / ARP(op=op, hwsrc=mac, psrc=ip, pdst="10.0.0.3") for op in (1, 2) for mac in (mine.mac, other.mac)
            ]
            packets.append(ethernet / ARP(op=1, hwsrc=mine.mac, psrc="0.0.0.0", pdst="10.0.0.3"))
        for tag in (0x8100, 0x88A8, 0x9100):
            tagged.append(Ether(src=source.mac, dst=worker_station(2).mac, type=tag) / Raw(bytes([0, 0, 8, 0]) + b"tagged" * 9))
        packets.append(ethernet / IP(src=source.ip, dst="10.0.0.3") / TCP(dport=wire.UDP_PORT))
    frames = [bytes(packet) for packet in packets]
    frames += [frames[0][:n] for n in (14, 20, 34, 40)]
    from_both = [(port, data) for data in frames for port in (0, 2)]
    return of_switchml("guarded", commands, from_both + [(0, bytes(packet)) for packet in tagged])


def forwarded() -> Scenario:
    stations = [worker_station(w) for w in range(3)]
    commands = forwarding(range(3), {s.mac: port for port, s in enumerate(stations)})
    asks = ARP(hwsrc=RECORDED_FROM, psrc=stations[0].ip, pdst=stations[1].ip)
    packets = [(0, bytes(Ether(src=stations[0].mac, dst="ff:ff:ff:ff:ff:ff") / asks))]
    for dst in (stations[1].mac, stations[2].mac, "02:00:00:00:00:77"):
        ethernet = Ether(src=stations[0].mac, dst=dst)
        packets.append((0, bytes(ethernet / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=1, dport=2) / b"hello")))
        packets.append(
            (
                0,
                bytes(
                    ethernet
                    / IP(src="10.0.0.1", dst="10.0.0.2", options=[IPOption(b"\x01" * 4)])
                    / UDP(dport=wire.UDP_PORT)
                    / (b"x" * 5)
                ),
            )
        )
        packets.append(
            (0, bytes(ethernet / IP(src="10.0.0.1", dst="10.0.0.2", flags=1, frag=0) / UDP(dport=wire.UDP_PORT) / (b"x" * 5)))
        )
    return of_switchml("forwarded", commands, [*packets, (1, packets[1][1][:14]), (1, packets[1][1][:20])])


def marked() -> Scenario:
    """Packets that understand marks and others, through queues that hardly drain; every checksum that a mark may carry over."""
    stations = [worker_station(w) for w in range(3)]
    commands = forwarding(range(3), {s.mac: port for port, s in enumerate(stations)})
    for port, depth in ((1, 1500), (2, 0)):
        its = {"rate": 1, "shallow": depth, "deep": depth + 1, "slope": 0}
        commands += [f"register_write ecn.{name} {port} {value}" for name, value in its.items()]
    packets = []
    for number in range(60):
        station, tos = stations[1 + number % 2], (2, 1, 0, 3, 0xFE, 0xFD)[number // 2 % 6]
        ip = IP(src="10.0.0.1", dst="10.0.0.2", tos=tos, id=number)
        if number >= 24:
            ip.id, ip.chksum = 0, (0, 1, 2, 0xFFFF, 0xFFFE, 0x8000)[number // 2 % 6 - number // 12 % 6]
        body = (UDP(sport=7, dport=4791, chksum=0), TCP(dport=9), UDP(dport=9))[number % 3] / (b"x" * (number % 50))
        packets.append((0, bytes(Ether(src=stations[0].mac, dst=station.mac) / ip / body)))
        packets.append((0, bytes(Ether(src=stations[0].mac, dst=station.mac, type=0x86DD) / Raw(b"\x60" + bytes(39)))))
    return of_switchml("marked", commands, packets)


def paths(in_turn: bool) -> Scenario:
    """Three ways to one destination, by flows of several hosts and UDP ports, or packet by packet."""
    stations = [worker_station(w) for w in range(4)]
    commands = Commands()
    forward(commands, range(3), {stations[0].mac: 0, stations[3].mac: range(4, 7)})
    if in_turn:
        by_packet(commands)
    packets = []
    for number in range(24):
        ethernet = Ether(src=stations[number % 3].mac, dst=stations[3].mac)
        ip = IP(src=stations[number % 3].ip, dst=stations[3].ip, id=number)
        body = (UDP(sport=number, dport=9), TCP(sport=number, dport=9))[number // 3 % 2] / (b"x" * number)
        packets.append((0, bytes(ethernet / ip / body)))
    return of_switchml("paths-in-turn" if in_turn else "paths-by-flow", commands.lines, packets)


def lossy(name: str, loss: Loss) -> Scenario:
    """Packet by packet: which of 200 broadcasts, and which of their copies, are lost."""
    commands = [*forwarding(range(3), {}), *set_loss(0, 0, loss, link_seed(5, 0, 0))]
    for port in (1, 2):
        commands += set_loss(1, port, loss, link_seed(5, port, 1))
    packets = [(0, b"\xff" * 6 + b"\x02" + bytes(5) + b"\x88\xb5" + struct.pack(">H", n)) for n in range(200)]
    return of_switchml(name, commands, packets)
