"""Simple test framework cases on the embedded switch: python -m inalab.switches.stf CASE.stf PROGRAM.p4

A case is what p4c's tests and test generators write: commands to the switch, packets in, and the packets expected out. It passes if
every port that it names sends exactly the packets that it expects there, in that order.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .control import ControlError
from .embedded.build import build
from .embedded.errors import CompileError
from .embedded.offline import OfflineSwitch

HIGHEST_PRIORITY = 10_000  # a case's larger numbers go first, simple_switch's smaller ones
DIGIT_BITS = {"0x": 4, "0b": 1, "0o": 3}
COMMANDS = (
    "mirroring_add", "mirroring_add_mc", "mirroring_delete", "mirroring_get", "mc_mgrp_create", "mc_node_create", "mc_node_update",
    "mc_node_associate", "counter_read", "counter_write", "register_read", "register_write", "register_reset", "meter_get_rates",
    "meter_set_rates", "meter_array_set_rates",
)  # fmt: skip


class StfError(Exception):
    """A case that is wrong, or that the switch has not passed; str() is one line."""


@dataclass
class Expected:
    """A packet: hexadecimal digits, * for any. An `exact` one ends there; another may go on."""

    line: int
    digits: str
    exact: bool

    def matches(self, packet: bytes) -> bool:
        got = packet.hex().upper()
        if len(got) < len(self.digits) or (self.exact and len(got) != len(self.digits)):
            return False
        return all(want in ("*", have) for want, have in zip(self.digits, got, strict=False))


@dataclass
class Case:
    """What a file says, line by line, and which packets it expects at which port; None for any number of any packets."""

    statements: list[tuple[int, list[str]]]
    ports: set[int] = field(default_factory=set)
    expected: dict[int, list[Expected] | None] = field(default_factory=dict)


def read_case(path: Path) -> Case:
    """Raises StfError for a line that says nothing that is known."""
    case = Case([])
    for number, text in enumerate(path.read_text().splitlines(), 1):
        words = text.partition("#")[0].split()
        if not words:
            continue
        what = words[0] = words[0].lower()
        if what in ("packet", "expect"):
            if len(words) < 2 or not words[1].isdigit():
                raise StfError(f"{path}:{number}: {what} needs the number of a port")
            case.ports.add(int(words[1]))
        if what == "expect":
            _expect(case, number, int(words[1]), "".join(words[2:]).upper())
        elif what in ("packet", "add", "setdefault", *COMMANDS):
            case.statements.append((number, words))
        elif what not in ("wait", "no_packet"):
            raise StfError(f"{path}:{number}: {what} is not supported")
    return case


def _expect(case: Case, line: int, port: int, digits: str) -> None:
    packets = case.expected.setdefault(port, [])
    if not digits:
        case.expected[port] = None
    elif packets is not None:
        packets.append(Expected(line, digits.rstrip("$"), digits.endswith("$")))


# --- tables


@dataclass(frozen=True)
class TableInfo:
    """A table as `table_info` shows it: its keys with their match kinds, and its actions with their parameters."""

    name: str
    keys: dict[str, str]
    actions: dict[str, list[str]]


def table_info(switch: OfflineSwitch, table: str) -> TableInfo:
    head, *actions = switch.command(f"table_info {table}").splitlines()
    name, _, rest = head.partition(" ")
    keys = dict(re.findall(r"([^\s,=]+)\((\w+), \d+\)", rest))
    return TableInfo(name, keys, {a.partition(" ")[0]: re.findall(r"(\w+)\(\d+\)", a.partition(" ")[2]) for a in actions})


def _named(name: str, known: dict[str, object] | dict[str, str] | dict[str, list[str]], what: str) -> str:
    """The full name of what is named by an end of it."""
    name = re.sub(r"\$(\d+)", r"[\1]", name)
    found = [k for k in known if k == name] or [
        k for k in known if k.endswith(f".{name}") or k in (f"{name}()", f"{name}.isValid()")
    ]
    found = found or [k for k in known if name.rpartition(".")[2] in ("valid", "$valid$") and k.endswith("isValid()")]
    if len(found) != 1:
        raise StfError(f"there is no {what} {name}: {', '.join(known) or 'none'}")
    return found[0]


def _key(value: str, kind: str) -> str:
    """A key as simple_switch_CLI takes it: * in digits are bits that do not matter."""
    bits = DIGIT_BITS.get(value[:2].lower())
    if kind == "lpm" and "/" not in value:
        text = hex(int(value)) if bits is None else value
        digits = len(text) - 2 - text.count("*")
        return f"{text.replace('*', '0')}/{digits * (bits or 4)}"
    if kind in ("ternary", "optional") and "&&&" not in value:
        prefix = value[:2] if bits else "0x"
        shown = value[2:] if bits else f"{int(value):x}"
        one = {4: "f", 1: "1", 3: "7", None: "f"}[bits]
        mask = "".join("0" if d == "*" else one for d in shown)
        return f"{prefix}{shown.replace('*', '0')}&&&{prefix}{mask}"
    return value


ANY = {"ternary": "0&&&0", "lpm": "0/0", "range": "0->0", "optional": "0&&&0"}  # what a key is that is not given
CALL = re.compile(r"([\w.$]+)\s*\((.*)\)\s*(?:=\s*\w+)?$")


def _action(text: str, info: TableInfo) -> tuple[str, list[str]]:
    """An action and its arguments in order, from name(parameter:value, …)."""
    match = CALL.match(text)
    if match is None:
        raise StfError(f"{text!r} is no action: write name(parameter:value)")
    name = _named(match[1], info.actions, "action")
    given = dict(pair.split(":") for pair in match[2].replace(" ", "").split(",") if ":" in pair)
    if set(given) != set(info.actions[name]):
        raise StfError(f"{name} takes {', '.join(info.actions[name]) or 'no parameters'}")
    return name, [given[p] for p in info.actions[name]]


def command(switch: OfflineSwitch, words: list[str]) -> str:
    """A statement about a table as a command of simple_switch_CLI."""
    info = table_info(switch, words[1])
    if words[0] == "setdefault":
        name, arguments = _action(" ".join(words[2:]), info)
        return " ".join(["table_set_default", info.name, name, *arguments])
    at = 2
    priority = ""
    if words[at].isdigit():
        priority, at = str(HIGHEST_PRIORITY - int(words[at])), at + 1
    keys = {name: ANY.get(kind, "0") for name, kind in info.keys.items()}
    while at < len(words) and "(" not in words[at]:
        field_, _, value = words[at].partition(":")
        name = _named(field_, info.keys, "key")
        keys[name] = _key(value, info.keys[name])
        at += 1
    name, arguments = _action(" ".join(words[at:]), info)
    if not priority and set(info.keys.values()) & {"ternary", "range", "optional"}:
        priority = str(HIGHEST_PRIORITY)
    return " ".join(["table_add", info.name, name, *keys.values(), "=>", *arguments, *([priority] if priority else [])])


# --- running a case


def run(case: Case, switch: OfflineSwitch) -> Iterator[str]:
    """Play a case; yields what is not as it expects."""
    sent: dict[int, list[bytes]] = {port: [] for port in case.ports}
    for number, words in case.statements:
        try:
            if words[0] == "packet":
                for port, packet in switch.send(int(words[1]), bytes.fromhex("".join(words[2:]))):
                    if port in sent:  # no other port has an interface
                        sent[port].append(packet)
            else:
                switch.command(command(switch, words) if words[0] in ("add", "setdefault") else " ".join(words))
        except (ControlError, StfError, ValueError) as error:
            raise StfError(f"line {number}: {error}") from None
    for port, packets in sent.items():
        expected = case.expected.get(port, [])
        if expected is not None:
            yield from _compare(port, expected, packets)


def _compare(port: int, expected: list[Expected], packets: list[bytes]) -> Iterator[str]:
    if len(expected) != len(packets):
        yield f"port {port}: {len(expected)} packets expected, {len(packets)} sent"
    for want, have in zip(expected, packets, strict=False):
        if not want.matches(have):
            yield f"line {want.line}: port {port}: expected {want.digits}{'$' * want.exact}, sent {have.hex().upper()}"


def play(case: Path, program: Path, defines: dict[str, str] | None = None, include_dirs: list[Path] | None = None) -> list[str]:
    """What a case finds wrong with a program. Raises CompileError and StfError."""
    read = read_case(case)
    with OfflineSwitch(build(program, defines, include_dirs), ports=max(read.ports, default=0) + 1) as switch:
        return list(run(read, switch))


def main() -> None:
    """Play a case, and print what went wrong; the exit code is 1 then."""
    parser = argparse.ArgumentParser(prog="python -m inalab.switches.stf", description="Play an STF case on the embedded switch.")
    parser.add_argument("case", type=Path, help="the packets and commands")
    parser.add_argument("program", type=Path, help="P4_16 program for v1model")
    parser.add_argument("-D", dest="defines", metavar="NAME=VALUE", action="append", default=[], help="define a macro")
    parser.add_argument("-I", dest="include_dirs", metavar="DIR", type=Path, action="append", default=[], help="include path")
    options = parser.parse_args()
    try:
        defines = dict(d.split("=", 1) if "=" in d else (d, "1") for d in options.defines)
        wrong = play(options.case, options.program, defines, options.include_dirs)
    except (CompileError, StfError, OSError) as error:
        sys.exit(str(error) if isinstance(error, CompileError) else f"error: {error}")
    for line in wrong:
        print(f"{options.case}: {line}", file=sys.stderr)
    sys.exit(int(bool(wrong)))


if __name__ == "__main__":
    main()
