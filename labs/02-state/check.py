"""Lab 2: exact counts, and numbers that wrap around."""

import random
from collections.abc import Sequence

from scapy.all import ByteField, Ether, IntField, Packet, Raw, ShortField, bind_layers

from inalab.testbed.lab.lab import Failure, Lab
from inalab.testbed.lab.packets import wire
from inalab.testbed.lab.switch import StudentSwitch
from inalab.testbed.lab.workbench import Workbench

lab = Lab("State", language="P4", hours=2, files=["state.p4"])

HOST, SWITCH = "08:00:00:00:00:01", "08:00:00:00:00:fe"
TYPE_PROBE = 0x88B5
COUNT, READ, NUMBER, LATE = 1, 2, 3, 0xFFFFFFFF
DRAW = random.SystemRandom()  # in each check other flows and numbers: no program can have the answers built in


class Probe(Packet):
    """Behind Ethernet."""

    name = "probe"
    fields_desc = [ByteField("operation", COUNT), ByteField("flow", 0), ShortField("number", 0), IntField("value", 0)]  # noqa: RUF012


bind_layers(Ether, Probe, type=TYPE_PROBE)


def probe(operation: int, flow: int = 0, number: int = 0, payload: bytes = b"") -> Packet:
    """A probe from the host to the switch."""
    made = Ether(src=HOST, dst=SWITCH) / Probe(operation=operation, flow=flow, number=number)
    return made / Raw(payload) if payload else made


def answer(sent: Packet, value: int) -> Packet:
    """What must come back."""
    made = sent.copy()
    made[Ether].src, made[Ether].dst = SWITCH, HOST
    made[Probe].value = value
    return made


def ask(switch: StudentSwitch, port: int, sent: Packet, value: int, about: str) -> None:
    switch.expect(port, sent, [(port, answer(sent, value))], about)


@lab.task("each flow has a count of its own", points=25)
def counts(bench: Workbench) -> None:
    switch = bench.switch()
    totals: dict[int, int] = {}
    for n in range(200):
        flow = (n * n) % 7 + 249 * (n % 2)
        totals[flow] = totals.get(flow, 0) + 1
        ask(
            switch,
            n % 4,
            probe(COUNT, flow),
            totals[flow],
            f"packet {totals[flow]} of flow {flow} must be answered with that count",
        )


@lab.task("reading does not count", points=10)
def reading(bench: Workbench) -> None:
    switch = bench.switch()
    for n in (1, 2, 3):
        ask(switch, 1, probe(COUNT, 5), n, f"packet {n} of flow 5 must be answered with that count")
    for _ in range(2):
        ask(switch, 2, probe(READ, 5), 3, "three packets of flow 5 were counted: reading must say 3, each time")
        ask(switch, 2, probe(READ, 6), 0, "no packet of flow 6 was counted: reading must say 0")
    flow, times = DRAW.randrange(7, 256), DRAW.randrange(4, 12)
    for n in range(times):
        ask(switch, 1, probe(COUNT, flow), n + 1, f"packet {n + 1} of flow {flow} must be answered with that count")
    ask(switch, 3, probe(READ, flow), times, f"{times} packets of flow {flow} were counted: reading must say {times}")


@lab.task("the counts wrap around at 32 bits", points=10)
def count_wraps(bench: Workbench) -> None:
    switch = bench.switch()
    switch.command("register_write counts 9 4294967294")
    for value in (4294967295, 0, 1):
        ask(switch, 1, probe(COUNT, 9), value, f"after 4294967294 the counts are 4294967295, 0 and 1: {value} is due")


@lab.task("the counter has every packet and byte of each port", points=20)
def arrived(bench: Workbench) -> None:
    switch = bench.switch()
    packets, octets = [0] * 4, [0] * 4
    for n in range(60):
        port, kind = (n * 5) % 4, n % 5
        sent = Ether(src=HOST, dst=SWITCH, type=0x0800) / Raw(bytes(30 + n)) if kind == 4 else probe(kind, n % 3, n, bytes(n))
        packets[port] += 1
        octets[port] += len(wire(sent))
        switch.send(port, wire(sent))
    for port in range(4):
        wording = switch.command(f"counter_read arrived {port}")
        if f"packets={packets[port]}" not in wording or f"bytes={octets[port]}" not in wording:
            raise Failure(
                f"{packets[port]} packets of {octets[port]} bytes arrived at port {port}, whatever was in them; "
                f"the counter's cell says: {wording.strip()}"
            )


def numbered(switch: StudentSwitch, flow: int, numbers: Sequence[tuple[int, int]], about: str) -> None:
    """Numbers of a flow, each with the answer that is due."""
    for number, missing in numbers:
        value = "LATE" if missing == LATE else str(missing)
        ask(switch, 1, probe(NUMBER, flow, number), missing, f"{about}: number {number} must be answered with {value}")


def drawn(due: int, late: bool) -> list[tuple[int, int]]:
    """Numbers of a flow of which `due` is expected, in order, behind gaps or, some of them, late; and the answers that are due."""
    numbers = []
    for _ in range(12):
        if late and DRAW.random() < 0.3:
            numbers.append(((due - DRAW.randrange(1, 0x8000)) % (1 << 16), LATE))
            continue
        missing = DRAW.choice((0, DRAW.randrange(1, 0x800)))
        numbers.append(((due + missing) % (1 << 16), missing))
        due = (due + missing + 1) % (1 << 16)
    return numbers


@lab.task("gaps between numbers are found", points=20)
def gaps(bench: Workbench) -> None:
    switch = bench.switch()
    numbered(switch, 1, [(0, 0), (1, 0), (2, 0)], "numbers in order, from 0")
    numbered(switch, 1, [(5, 2), (6, 0), (16, 9)], "3 and 4 are missing after 0, 1, 2, and so on")
    numbered(switch, 2, [(3, 3), (4, 0)], "another flow begins at 0, too")
    numbered(switch, 1, [(17, 0)], "the other flow changes nothing in this one")
    numbered(switch, 6, drawn(0, late=False), "numbers with gaps between them")


@lab.task("the numbers wrap around, and late ones are told from gaps", points=15)
def wrap_around(bench: Workbench) -> None:
    switch = bench.switch()
    switch.command("register_write expected 3 65534")
    numbered(switch, 3, [(65534, 0), (65535, 0), (0, 0), (1, 0)], "65535 is followed by 0")
    switch.command("register_write expected 4 65530")
    numbered(switch, 4, [(2, 8)], "65530 to 65535, 0 and 1 are missing")
    numbered(switch, 4, [(1, LATE), (65535, LATE), (3, 0)], "a number from before what is expected comes late, and changes nothing")
    numbered(switch, 5, [(32767, 32767), (0, LATE), (65535, 32767)], "a difference below 0x8000 is a gap, any other is late")
    begin = DRAW.randrange(0xF000, 0x10000)
    switch.command(f"register_write expected 7 {begin}")
    numbered(switch, 7, drawn(begin, late=True), f"after {begin - 1}, numbers with gaps between them, and late ones")
