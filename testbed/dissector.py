"""A Wireshark dissector, in Lua, for what P4 programs parse behind UDP: made from their headers, enums and parsers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inalab.schemes import registry
from inalab.schemes.scheme import Scheme
from inalab.switches.embedded import checked
from inalab.switches.embedded import syntax as s
from inalab.switches.embedded.compiler import check_p4
from inalab.switches.embedded.errors import CompileError, Position
from inalab.switches.embedded.types import EnumType, Header, Struct, Type, as_bits, bit_width

ENGINE = Path(__file__).with_suffix(".lua")
HEADING = "-- Made by `inalab dissector` from the headers and parsers of P4 programs. Open it with: wireshark -X lua_script:FILE"
KEYWORDS = (
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in", "local", "nil", "not", "or",
    "repeat", "return", "then", "true", "until", "while",
)  # fmt: skip
KNOWN = {4791}  # ports that Wireshark has dissectors for: RoCEv2
UDP, PORT_AT = "udp", 16  # the header's name in a program, and the bit at which its destination port begins (RFC 768)
LIST = 16  # a header of more fields than this, all of one type, is a list: a vector's length depends on K
WIDEST, WIDEST_KEY = 64, 32  # bits of a field, and of one that a parser selects by
END = ("accept", "reject")


@dataclass(frozen=True)
class Protocol:
    """What a program parses behind UDP: `ports` with the states that they lead to, states and headers by name."""

    name: str
    title: str
    ports: dict[int, str]
    states: dict[str, Any]
    headers: dict[str, Any]


def write(path: Path) -> list[Protocol]:
    """Write the dissector of all schemes with programs, but those that Wireshark knows. Raises CompileError, and OSError."""
    protocols = [protocol(scheme) for scheme in by_program(map(registry.find, registry.names()))]
    protocols = [one for one in protocols if not set(one.ports) <= KNOWN]
    path.write_text(lua(protocols), encoding="utf-8")
    return protocols


def by_program(schemes: Iterable[Scheme]) -> list[Scheme]:
    """The first scheme of each program whose packets are not another scheme's."""
    first: dict[Path, Scheme] = {}
    for scheme in schemes:
        if scheme.program is not None and not scheme.protocol:
            first.setdefault(scheme.program, scheme)
    return list(first.values())


def protocol(scheme: Scheme) -> Protocol:
    """The protocol of a scheme's program. Raises CompileError, also for what the dissector could not follow."""
    assert scheme.program is not None
    return described(check_p4(scheme.program), scheme.name, scheme.look.label)


def described(program: checked.Program, name: str, title: str) -> Protocol:
    """What the program's parser does behind UDP, under this name. Raises CompileError for what the dissector cannot follow."""
    parser = program.blocks[0]
    states = {state.name: state for state in parser.states}
    ports = dict(pair for state in parser.states for pair in _ports(state))
    if not ports:
        raise _refused(parser.position, f"no state selects a destination port of a header named {UDP}")
    reached: dict[str, Any] = {}
    headers: dict[str, Any] = {}
    left = list(ports.values())
    while left:
        if (here := left.pop()) in reached or here in END:
            continue
        state = states[here]
        extracted = dict(_extracted(state))
        headers |= {header: _header(type_, state.position) for header, type_ in extracted.items()}
        reached[here] = _state(state, list(extracted))
        left += [case[-1] for case in reached[here]["cases"]]
    return Protocol(name, title, ports, reached, headers)


def lua(protocols: list[Protocol]) -> str:
    """The script: the protocols as a table, then what reads it."""
    table = f"local protocols = {_lua([vars(one) for one in protocols])}"
    return "\n\n".join([HEADING, table, ENGINE.read_text(encoding="utf-8")])


# --- parsers


def _ports(state: checked.State) -> Iterator[tuple[int, str]]:
    """The UDP ports that a state selects, and the states that they lead to."""
    for i, key in enumerate(state.select):
        header = key.base if isinstance(key, s.Member) else None
        if not isinstance(header, s.Member) or header.name != UDP or not isinstance(header.type, Struct):
            continue
        at = dict(_offsets(header.type))
        if at[key.name] == PORT_AT:  # type: ignore[union-attr]
            for case in state.cases:
                if len(case.keys) > i and (port := _exact(case.keys[i], 16, case.position)) is not None:
                    yield port, case.state


def _extracted(state: checked.State) -> Iterator[tuple[str, Header]]:
    """The headers that a state extracts, by the names that they have in the program."""
    for statement in state.statements:
        call = getattr(statement, "call", None)
        if not isinstance(call, s.Call) or getattr(call.function, "name", "") != "extract":
            continue
        (header, *lengths) = call.arguments
        if lengths or not isinstance(header, s.Member) or not isinstance(header.type, Header):
            raise _refused(call.position, "it extracts something else than a header of one length")
        yield header.name, header.type


def _state(state: checked.State, extracted: list[str]) -> dict[str, Any]:
    """What it extracts, the fields that it selects by, and its cases: a value or false (for any) a field, then the next state."""
    keys, widths = [], []
    for key in state.select:
        width = bit_width(key.type)
        if not isinstance(key, s.Member) or not isinstance(key.base, s.Member) or width > WIDEST_KEY:
            raise _refused(key.position, f"it selects by something else than a field of up to {WIDEST_KEY} bits")
        keys.append([key.base.name, key.name])
        widths.append(width)
    cases = [[*(_value(p, w, case.position) for p, w in zip(case.keys, widths, strict=True)), case.state] for case in state.cases]
    return {"extract": extracted, "select": keys, "cases": cases or [[state.next]]}


def _value(pattern: checked.Pattern, width: int, position: Position) -> int | bool:
    value = _exact(pattern, width, position)
    return False if value is None else value


def _exact(pattern: checked.Pattern, width: int, position: Position) -> int | None:
    """The one value of a pattern; None for any."""
    if pattern.kind == "any" or (pattern.kind == "mask" and pattern.high == 0):
        return None
    if pattern.kind != "mask" or pattern.high != (1 << width) - 1:
        raise _refused(position, "the case is neither one value nor any")
    return pattern.low


def _refused(position: Position, why: str) -> CompileError:
    return CompileError(position, f"a dissector cannot be made of this: {why}")


# --- headers


def _header(type_: Header, position: Position) -> dict[str, Any]:
    """Its bytes and fields, each with its first bit and its width; or the width of the elements of a list."""
    if type_.width % 8:
        raise _refused(position, f"{type_} has {type_.width} bits, which are not whole bytes")
    kinds = {f.type for f in type_.fields}
    if len(type_.fields) > LIST and len(kinds) == 1 and (width := bit_width(type_.fields[0].type)) in (8, 16, 32):
        return {"list": width}
    at = dict(_offsets(type_))
    return {"bytes": type_.width // 8, "fields": [_field(f.name, f.type, at[f.name], position) for f in type_.fields]}


def _offsets(type_: Struct) -> Iterator[tuple[str, int]]:
    at = 0
    for f in type_.fields:
        yield f.name, at
        at += bit_width(f.type)


def _field(name: str, type_: Type, at: int, position: Position) -> dict[str, Any]:
    bits = as_bits(type_)
    if bits is None or bits.width > WIDEST:
        raise _refused(position, f"the field {name} is of {type_}")
    field: dict[str, Any] = {"name": name, "at": at, "width": bits.width}
    if isinstance(type_, EnumType):
        field["values"] = dict(zip(type_.values, type_.members, strict=True))
    return field


# --- Lua


def _lua(value: Any, indent: int = 0) -> str:
    """A value as a Lua expression; a long table takes several lines."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, dict):
        inside = [f"{_key(key)} = {_lua(one, indent + 4)}" for key, one in value.items()]
    else:
        inside = [_lua(one, indent + 4) for one in value]
    flat = "{ " + ", ".join(inside) + " }" if inside else "{}"
    if "\n" not in flat and len(flat) + indent <= 100:
        return flat
    return "{\n" + "".join(f"{' ' * (indent + 4)}{line},\n" for line in inside) + " " * indent + "}"


def _key(key: int | str) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return key if key.isidentifier() and key not in KEYWORDS else f'["{key}"]'
