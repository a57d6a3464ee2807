"""Lab 1: what a switch that forwards IPv4 packets must do."""

import random
from collections.abc import Sequence

from scapy.all import IP, Ether, Packet, Raw

from inalab.testbed.lab.lab import Lab
from inalab.testbed.lab.packets import parsed, wire
from inalab.testbed.lab.switch import StudentSwitch
from inalab.testbed.lab.workbench import Workbench

lab = Lab("Forward a packet", language="P4", hours=2, files=["forward.p4"])

SWITCH = "08:00:00:00:01:00"
H1, H2, H3 = "08:00:00:00:01:11", "08:00:00:00:02:22", "08:00:00:00:03:33"
DRAW = random.SystemRandom()  # in each check other routes: no program can have them built in
PORT1, PORT2, PORT3 = DRAW.sample(range(8), 3)
NET, SUBNET = f"10.{DRAW.randrange(1, 255)}", DRAW.randrange(2, 255)
NEAR, ALONE = f"{NET}.{SUBNET}", f"{NET}.1.1"  # a subnet, and a host of its own
ROUTES = [
    f"table_add routes forward {NEAR}.0/24 => {PORT2} {H2}",
    f"table_add routes forward {NET}.0.0/16 => {PORT3} {H3}",
    f"table_add routes forward {ALONE}/32 => {PORT1} {H1}",
]


def packet(to: str, ttl: int = 64, payload: bytes = b"inalab", source: str = ALONE) -> Packet:
    """A packet from h1 to an address, by way of the switch."""
    return Ether(src=H1, dst=SWITCH, type=0x0800) / IP(src=source, dst=to, ttl=ttl, proto=253) / Raw(payload)


def forwarded(sent: Packet, next_hop: str) -> Packet:
    """What must leave: other addresses, one hop less, and a checksum that is right (scapy computes it)."""
    made = sent.copy()
    made[Ether].src, made[Ether].dst = SWITCH, next_hop
    made[IP].ttl -= 1
    return made


def routed(bench: Workbench, commands: Sequence[str] = ROUTES) -> StudentSwitch:
    """The student's switch with routes."""
    return bench.switch(commands)


def one(bench: Workbench, sent: Packet, port: int, next_hop: str, about: str, ignoring: Sequence[str] = ("ttl", "chksum")) -> None:
    """A packet to one next hop; what other tasks are about is ignored."""
    routed(bench).expect(PORT1, sent, [(port, forwarded(sent, next_hop))], about, ignoring)


@lab.task("a packet leaves at the port of its route, rewritten", points=25)
def port(bench: Workbench) -> None:
    about = f"a packet to {NEAR}.2 must leave at port {PORT2}, with the next hop's address"
    one(bench, packet(f"{NEAR}.2"), PORT2, H2, about)
    back = Ether(src=H2, dst=SWITCH) / IP(src=f"{NEAR}.2", dst=ALONE, proto=253) / Raw(b"back")
    about = f"a packet to {ALONE} must leave at port {PORT1}"
    routed(bench).expect(PORT2, back, [(PORT1, forwarded(back, H1))], about, ("ttl", "chksum"))


@lab.task("the longest prefix decides", points=15)
def longest_prefix(bench: Workbench) -> None:
    other = f"{NET}.{SUBNET + 1}.9"
    one(bench, packet(other), PORT3, H3, f"{other} is in {NET}.0.0/16 alone, whose port is {PORT3}")
    about = f"{NEAR}.77 is in {NET}.0.0/16 and {NEAR}.0/24: the longer prefix decides, whose port is {PORT2}"
    one(bench, packet(f"{NEAR}.77"), PORT2, H2, about)


@lab.task("the time to live falls by one, and ends", points=20)
def time_to_live(bench: Workbench) -> None:
    for ttl in (255, 17, 2):
        one(bench, packet(f"{NEAR}.2", ttl), PORT2, H2, f"a packet with TTL {ttl} must leave with TTL {ttl - 1}", ["chksum"])
    for ttl in (1, 0):
        routed(bench).expect(PORT1, packet(f"{NEAR}.2", ttl), [], f"a packet with TTL {ttl} must not be forwarded")


@lab.task("the checksum is that of the new header", points=20)
def checksum(bench: Workbench) -> None:
    switch = routed(bench)
    about = "the checksum of the IPv4 header must be right after the change"
    for n in range(20):
        sent = packet(f"{NEAR}.{n * 12}", ttl=3 + n * 7, payload=bytes(n))
        sent[IP].id, sent[IP].tos = DRAW.randrange(1 << 16), n
        came = switch.send(PORT1, wire(sent))
        right = [(port, with_checksum(parsed(data))) for port, data in came] or [(PORT2, forwarded(sent, H2))]
        switch.expect(PORT1, sent, right, about)


def with_checksum(packet: Packet) -> Packet:
    """The packet with a checksum that is right for the rest of it."""
    if IP in packet:
        del packet[IP].chksum
    return packet


@lab.task("what has no route is dropped, and so is what is not IPv4", points=20)
def default_drop(bench: Workbench) -> None:
    one(bench, packet(f"{NEAR}.2"), PORT2, H2, "a packet with a route must still be forwarded")
    routed(bench).expect(PORT1, packet("192.168.0.1"), [], "there is no route to 192.168.0.1: the packet must be dropped")
    routed(bench, []).expect(PORT1, packet(f"{NEAR}.2"), [], "with an empty table every packet must be dropped")
    other = Ether(src=H1, dst=SWITCH, type=0x88B5) / Raw(bytes(46))
    routed(bench).expect(PORT1, other, [], "a packet with EtherType 0x88B5 is not IPv4: it must be dropped")
