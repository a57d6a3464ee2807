"""Simple test framework cases on the embedded switch: python -m inalab.switches.stf CASE.stf PROGRAM.p4

A case is what p4c's tests and test generators write: commands to the switch, packets in, and the packets expected out. It passes if
every port that it names sends exactly the packets that it expects there, in that order.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .control import ControlError
from .embedded.build import build
from .embedded.errors import CompileError
from .embedded.offline import Batches, OfflineSwitch

HIGHEST_PRIORITY = 10_000  # a case's larger numbers go first, simple_switch's smaller ones
DIGIT_BITS = {"0x": 4, "0b": 1, "0o": 3}
COMMANDS = (
    "mirroring_add", "mirroring_add_mc", "mirroring_delete", "mirroring_get", "mc_mgrp_create", "mc_node_create", "mc_node_update",
    "mc_node_associate", "counter_read", "counter_write", "register_read", "register_write", "register_reset", "meter_get_rates",
    "meter_set_rates", "meter_array_set_rates",
)  # fmt: skip


class StfError(Exception):
    """A case that is wrong, or that the switch has not passed; str() is one line."""


@dataclass(frozen=True)
class Entry:
    """A table's entry, or with no `keys` its default action; names may be the ends of names."""

    table: str
    priority: int | None
    keys: dict[str, str] | None
    action: str
    arguments: dict[str, str]


@dataclass(frozen=True)
class Arrival:
    """A packet that arrives at a port."""

    port: int
    packet: bytes


@dataclass(frozen=True)
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
    """What a file says, line by line (a str is a command), and which packets it expects at which port."""

    statements: list[tuple[int, Entry | Arrival | str]] = field(default_factory=list)
    ports: set[int] = field(default_factory=set)
    expected: dict[int, list[Expected]] = field(default_factory=dict)


# --- reading a case


def read_case(path: Path) -> Case:
    """See `parse_case`."""
    return parse_case(path.read_text(), str(path))


def parse_case(text: str, name: str) -> Case:
    """Raises StfError for a line that says nothing that is known; it begins with `name`, and the line's number."""
    case = Case()
    for number, line in enumerate(text.splitlines(), 1):
        try:
            _read(case, number, line)
        except StfError as error:
            raise StfError(f"{name}:{number}: {error}") from None
    return case


def _read(case: Case, line: int, text: str) -> None:
    text = re.sub(r'("[^"]*")|#.*', r"\1", text)  # a name in quotes may have any character
    what, *rest = text.split() or [""]
    what = what.lower()
    if what in ("packet", "expect"):
        if not rest or not rest[0].isdecimal():
            raise StfError(f"{what} needs the number of a port")
        port, digits = int(rest[0]), "".join(rest[1:]).upper()
        case.ports.add(port)
        if what == "packet":
            case.statements.append((line, Arrival(port, _packet(digits))))
        elif re.fullmatch(r"[0-9A-F*]*\$?", digits):
            case.expected.setdefault(port, []).append(Expected(line, digits.rstrip("$"), digits.endswith("$")))
        else:
            raise StfError(f"{digits} is no packet: write hexadecimal digits, * for any, and $ at its end")
    elif what in ("add", "setdefault"):
        case.statements.append((line, _entry(text, default=what == "setdefault")))
    elif what in COMMANDS:
        case.statements.append((line, " ".join([what, *rest])))
    elif what not in ("", "wait"):
        raise StfError(f"{what} is not supported")


def _packet(digits: str) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise StfError(f"{digits} is no packet: write two hexadecimal digits for each byte") from None


WORD = r'("[^"]+"|[^\s":(),=]+)'
PAIR = re.compile(rf"\s*{WORD}\s*:\s*{WORD}")
CALL = re.compile(rf"\s*{WORD}\s*\(([^()]*)\)\s*(?:=\s*\w+\s*)?$")
TABLE = re.compile(rf"\s*\w+\s+{WORD}(?:\s+(\d+)(?=\s))?")


def _entry(text: str, default: bool) -> Entry:
    """An entry from [add] table [priority] key:value … action(parameter:value, …) [= name]."""
    table = TABLE.match(text)
    if table is None:
        raise StfError(f"{text.split(maxsplit=1)[0]} needs a table")
    keys, at = list[tuple[str, str]](), table.end()
    while pair := PAIR.match(text, at):
        keys.append((_unquoted(pair[1]), pair[2]))
        at = pair.end()
    call = CALL.match(text, at)
    if call is None or (default and (keys or table[2])):
        raise StfError(f"{text[at:].strip()!r} is no action: write name(parameter:value)")
    arguments = list[tuple[str, str]]()
    for argument in call[2].split(",") if call[2].strip() else ():
        pair = PAIR.fullmatch(argument.rstrip())
        if pair is None:
            raise StfError(f"{argument.strip()!r} is no argument: write parameter:value")
        arguments.append((_unquoted(pair[1]), pair[2]))
    priority = None if table[2] is None else int(table[2])
    return Entry(
        _unquoted(table[1]), priority, None if default else _once(keys, "key"), _unquoted(call[1]), _once(arguments, "parameter")
    )


def _once(pairs: list[tuple[str, str]], what: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise StfError(f"{what} {name} is given twice")
        found[name] = value
    return found


def _unquoted(name: str) -> str:
    return name.strip('"')


# --- tables


@dataclass(frozen=True)
class TableInfo:
    """A table as `table_info` shows it: its keys with their match kinds, and its actions with their parameters."""

    name: str
    keys: dict[str, str]
    actions: dict[str, list[str]]


def table_info(switch: Batches, table: str) -> TableInfo:
    head, *actions = switch.command(f"table_info {table}").splitlines()
    name, _, rest = head.partition(" ")
    keys = dict(re.findall(r"(?:^|,\s)(.+?)\((\w+), \d+\)", rest.partition("mk=")[2]))
    return TableInfo(name, keys, {a.partition(" ")[0]: re.findall(r"(\w+)\(\d+\)", a.partition(" ")[2]) for a in actions})


def _named(name: str, known: Collection[str], what: str) -> str:
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


def command(switch: Batches, entry: Entry | str) -> str:
    """A statement as a command of simple_switch_CLI."""
    if isinstance(entry, str):
        return entry
    info = table_info(switch, entry.table)
    action = _named(entry.action, info.actions, "action")
    parameters = info.actions[action]
    if set(entry.arguments) != set(parameters):
        raise StfError(f"{action} takes {', '.join(parameters) or 'no parameters'}")
    arguments = [entry.arguments[p] for p in parameters]
    if entry.keys is None:
        return " ".join(["table_set_default", info.name, action, *arguments])
    keys = {name: ANY.get(kind, "0") for name, kind in info.keys.items()}
    for name, value in entry.keys.items():
        full = _named(name, info.keys, "key")
        keys[full] = _key(value, info.keys[full])
    return " ".join(["table_add", info.name, action, *keys.values(), "=>", *arguments, *_priority(entry, info)])


def _priority(entry: Entry, info: TableInfo) -> list[str]:
    """What simple_switch_CLI takes after an entry's arguments. Where entries have no priorities, one is of no use."""
    if not set(info.keys.values()) & {"ternary", "range", "optional"}:
        return []
    if entry.priority is None:
        raise StfError(f"an entry of {info.name} needs a priority: write it before the keys")
    if entry.priority > HIGHEST_PRIORITY:
        raise StfError(f"priority {entry.priority} is higher than {HIGHEST_PRIORITY}")
    return [str(HIGHEST_PRIORITY - entry.priority)]


# --- running a case


def run(case: Case, switch: Batches) -> Iterator[str]:
    """Play a case; yields what is not as it expects."""
    sent: dict[int, list[bytes]] = {port: [] for port in case.ports}
    for line, what in case.statements:
        try:
            if isinstance(what, Arrival):
                for port, packet in switch.send(what.port, what.packet):
                    if port in sent:  # no other port has an interface
                        sent[port].append(packet)
            else:
                switch.command(command(switch, what))
        except (ControlError, StfError, ValueError) as error:
            raise StfError(f"line {line}: {error}") from None
    yield from differences(case, sent)


def differences(case: Case, sent: dict[int, list[bytes]]) -> Iterator[str]:
    """What a case does not expect of the packets that were sent at these ports."""
    for port, packets in sent.items():
        yield from _compare(port, case.expected.get(port, []), packets)


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
