"""What is shown of a packet that went wrong: what went in, what was expected, what came, and the line that decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scapy.packet import Packet

from inalab.testbed.lab.packets import MOST_SHOWN, compared, described, same
from inalab.testbed.lab.steps import FORWARDING, NAMES, Step, last_writer, of_copy

Sent = tuple[int, Packet]  # a packet at a port
Show = Callable[[Step], str | None]


def failure(
    arrived: Sent, expected: Sequence[Sent], came: Sequence[Sent], steps: list[Step], show: Show, ignoring: Sequence[str] = ()
) -> str | None:
    """The trace of a packet that caused other packets than expected, or None if it caused these, in any order."""
    missing, surplus = list(expected), list(came)
    for sent in came:
        found = next((e for e in missing if e[0] == sent[0] and same(e[1], sent[1], ignoring)), None)
        if found is not None:
            missing.remove(found)
            surplus.remove(sent)
    if not missing and not surplus:
        return None
    lines = [f"In at port {arrived[0]}:", *_indented(described(arrived[1]))]
    if missing:
        lines += _missing(missing[0], surplus, steps, show, ignoring)
    else:
        port, packet = surplus[0]
        what = "no packet" if not expected else f"{_count(len(expected))} ({_ports(expected)})"
        lines += [f"Expected: {what}. Came, too, at port {port}:", *_indented(described(packet))]
        lines += _decided("where the packet goes", last_writer(of_copy(steps, port), FORWARDING), show, steps)
    return "\n".join(lines)


def _missing(wanted: Sent, surplus: list[Sent], steps: list[Step], show: Show, ignoring: Sequence[str]) -> list[str]:
    """What came in the place of a packet that was expected: another one at its port, the same at another port, or none."""
    port, packet = wanted
    here = [s for s in surplus if s[0] == port]
    if here:
        return [
            f"Expected at port {port}, and what came there:",
            *_difference(packet, here[0][1], of_copy(steps, port), show, ignoring),
        ]
    lines = [f"Expected at port {port}:", *_indented(described(packet))]
    if not surplus:
        return [*lines, "Came: no packet.", *_decided("where the packet goes", last_writer(steps, FORWARDING), show, steps)]
    lines += [f"Came: nothing at port {port}, and at port {surplus[0][0]}:"]
    lines += _difference(packet, surplus[0][1], of_copy(steps, surplus[0][0]), show, ignoring)
    return lines + _decided("where the packet goes", last_writer(of_copy(steps, surplus[0][0]), FORWARDING), show, steps)


def _difference(expected: Packet, came: Packet, steps: list[Step], show: Show, ignoring: Sequence[str]) -> list[str]:
    """Two packets header by header, the fields that differ marked, and which line wrote the first of those."""
    rows = compared(expected, came, ignoring)
    absent = {r.header for r, _ in rows} - {r.header for r, _ in rows if r.came is not None}
    width = max(len(_or_absent(row.expected)) for row, _ in rows) + 2
    lines, header, kept = [f"    {'':<12}{'':<16}{'expected':<{width}}came"], "", 0
    lists = sum("[" in row.name for row, _ in rows) > MOST_SHOWN
    for row, differs in rows:
        if lists and "[" in row.name and not differs:
            continue  # a long list: only what differs
        if "[" in row.name and (kept := kept + 1) > MOST_SHOWN:
            continue
        name = row.header if row.header != header else ""
        if row.header in absent:
            lines += [f"    {name:<12}the header is absent  <-- differs"] if name else []
            header = row.header
            continue
        header = row.header
        mark = "  <-- differs" if differs else "  (not compared)" if row.expected != row.came else ""
        lines.append(f"    {name:<12}{row.name:<16}{_or_absent(row.expected):<{width}}{_or_absent(row.came)}{mark}")
    wrong = [row for row, differs in rows if differs]
    if wrong:
        first = wrong[0]
        if first.came is None:
            return lines
        endings = _endings(first.header, first.name)
        lines += _decided(f"{first.header} {first.name}", last_writer(steps, endings), show, steps)
    return lines


def _endings(header: str, name: str) -> list[str]:
    """How the path of a field may end in a P4 program. An element of a list may be a field of its own, such as v3."""
    base, _, index = name.partition("[")
    if index:
        number = index.rstrip("]")
        return [f".{base}{number}", f".{base}_{number}", f".{base[0]}{number}", f".{base}"]
    known = {"Ethernet": "ethernet", "IP": "ipv4"}.get(header, header.lower())
    return [f".{known}.{NAMES.get(name, name)}"]


def _decided(what: str, step: Step | None, show: Show, steps: list[Step]) -> list[str]:
    text = step and show(step)
    if text:
        return [f"Decided last about {what}:", f"    {text}"]
    if not steps:
        return []  # the switch recorded none
    last = next((t for s in reversed(steps) if (t := show(s))), None)
    lines = [f"No statement that this packet reached decided about {what}."]
    return lines + (["The last one that it reached is", f"    {last}"] if last else [])


def _or_absent(value: str | None) -> str:
    return "absent" if value is None else value


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _count(n: int) -> str:
    return "one packet" if n == 1 else f"{n} packets"


def _ports(sent: Sequence[Sent]) -> str:
    return "port " + ", ".join(str(port) for port, _ in sent)
