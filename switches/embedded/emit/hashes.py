"""Hashes and checksums, and the values that they are of, side by side.

A field of a header that is not valid counts for nothing: simple_switch leaves it out, and what follows moves up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from .. import checked
from .. import syntax as s
from ..errors import CompileError, Position, unsupported
from ..text import c_string
from ..types import BOOL, INTEGER, Bits, EnumType, Header, HeaderUnion, Struct, TupleOf, Varbit, as_bits
from . import expressions
from .context import DONE, Context, Place, Value
from .ctypes import convert, is_wide
from .expressions import store, target
from .packets import Cell, pattern, write_cells

HASHES = ("crc32", "crc16", "csum16", "identity", "xor16")
# bits, polynomial, initial remainder and final XOR, until a command sets others
CUSTOM = {"crc16_custom": (16, "0x8005, 0, 0"), "crc32_custom": (32, "0x04c11db7, 0xffffffff, 0xffffffff")}


def algorithm(c: Context, node: s.Expression, named: str = "") -> str:
    """A hash algorithm in C, up to its arguments. p4c numbers what it calls `named`, and so commands find a custom one by that."""
    if not isinstance(node.type, EnumType) or not isinstance(node.constant, int):
        raise CompileError(node.position, "the algorithm must be known when compiling")
    name, number = node.type.members[node.constant], c.hashes
    if named:
        c.hashes += 1
    if name in CUSTOM:
        width, parameters = CUSTOM[name]
        crc = c.unique("crc")
        shown = c_string(named if number == 0 or not named else f"{named}_{number - 1}")
        c.globals.append(f"static struct crc {crc} = {{{shown}, {width}, {parameters}, true, true, false, {{0}}}};")
        if named:
            c.crcs.append(crc)
        return f"hash_custom(&{crc}, "
    if name not in HASHES:
        raise unsupported(node.position, f"HashAlgorithm.{name}")
    return f"hash_{name}("


def _hash(c: Context, node: s.Call) -> Value:
    result, algorithm_, base, data, most = node.arguments
    hash_ = algorithm(c, algorithm_, "calc")
    to = target(c, result)
    bits = to.type
    assert isinstance(bits, Bits)
    with c.indented("{"):
        low = expressions.held(c, _bound(c, base))
        buffer, size = pack(c, data)
        high = _bound(c, most)
        drawn = c.temporary("hash")
        c.emit(f"const uint64_t {drawn} = hash_within({hash_}{buffer}, {size}), {low.text}, {high.text});")
        store(c, to, _as(drawn, bits, node.position))
    return DONE


def _as(hashed: str, type_: Bits, position: Position) -> str:
    """The low bits of a 64-bit hash as a type."""
    plain = Bits(type_.width)
    return convert(convert(hashed, Bits(64), plain, position), plain, type_, position)


def _bound(c: Context, node: s.Expression) -> Value:
    """The base or the maximum of a hash: bit<W>, or a number without a width."""
    if node.type == INTEGER:
        if not 0 <= int(node.constant or 0) < 1 << 64:
            raise CompileError(node.position, f"{node.constant} does not fit in 64 bits")
        return expressions.constant(c, int(node.constant or 0), Bits(64))
    if isinstance(node.type, Bits) and is_wide(node.type):
        raise unsupported(node.position, f"the base or maximum of a hash as {node.type} (at most 64 bits)")
    if not isinstance(node.type, (Bits, EnumType)) or as_bits(node.type) is None:
        raise CompileError(node.position, f"this is {node.type}, where bit<W> is needed")
    return c.expression(node)


def _checksum(update: bool, payload: bool, c: Context, node: s.Call) -> Value:
    condition, data, checksum, algorithm_ = node.arguments
    hash_, bits = algorithm(c, algorithm_, "cksum"), as_bits(checksum.type)
    if not isinstance(bits, Bits) or is_wide(bits):
        raise CompileError(checksum.position, f"this is {checksum.type}, where bit<W> is needed")
    with c.indented(f"if ({c.expression(condition).text}) {{"):
        buffer, size = pack(c, data, known_valid(c, condition), " + MAX_PACKET" if payload else "")
        length = f"{size} + payload_length" if payload else size
        if payload:
            c.emit(f"memcpy({buffer} + {size}, payload, payload_length);")
        computed = _as(f"{hash_}{buffer}, {length})", bits, node.position)
        if update:
            store(c, target(c, checksum), computed)
        else:
            c.emit(f"if ({computed} != {c.expression(checksum).text}) phv.standard.checksum_error = 1;")
    return DONE


# --- values side by side


@dataclass(frozen=True)
class Part:
    """A number, or a varbit; C text that tells whether the header that it is a field of is `valid`, empty if it is of none."""

    what: Cell | Place
    valid: str
    width: int  # at most


def pack(c: Context, node: s.Expression, known_valid: Collection[str] = (), extra: str = "") -> tuple[str, str]:
    """A buffer with a list's values from its first bit on, structs field by field; its C name, and its size in bytes in C.

    Headers that are `known_valid` are not looked at. There are `extra` bytes behind the values.
    """
    nodes = _leaves(node)
    parts: list[Part] = []
    evaluated = expressions.in_order(c, [evaluate for leaf in nodes for evaluate in _evaluations(c, leaf)])
    for leaf, value, valid in zip(nodes, evaluated[::2], evaluated[1::2], strict=True):
        _lay(c, value, parts, valid.text, leaf.position)
    guards = list(dict.fromkeys(p.valid for p in parts if p.valid and p.valid not in known_valid))
    bits = sum(p.width for p in parts)
    size = (bits + 7) // 8
    buffer = c.temporary("data")
    c.emit(f"uint8_t {buffer}[{max(size, 1)}{extra}];")
    cells = [p.what for p in parts if isinstance(p.what, Cell)]
    if not guards and len(cells) == len(parts):
        _write_all(c, cells, bits, buffer)
        return buffer, str(size)
    used = c.temporary("bits")
    c.emit(f"unsigned {used} = {bits};")
    if len(cells) < len(parts):
        _write_one_by_one(c, parts, guards, buffer, used)
    else:
        with c.indented(f"if ({' && '.join(guards)}) {{"):
            _write_all(c, cells, bits, buffer)
        with c.indented("else {"):
            _write_one_by_one(c, parts, guards, buffer, used)
    return buffer, f"(({used} + 7) / 8)"


def known_valid(c: Context, condition: s.Expression) -> set[str]:
    """C text of what is true where a condition holds: header.isValid(), also in `&&`."""
    match condition:
        case s.Binary(operator="&&"):
            return known_valid(c, condition.left) | known_valid(c, condition.right)
        case s.Call(callee=checked.BuiltIn("isValid"), function=s.Member(base=base)) if isinstance(base.type, Header):
            place = c.expression(base).place
            return set() if place is None else {f"{place.part('valid')}"}
    return set()


def _write_all(c: Context, cells: list[Cell], bits: int, buffer: str) -> None:
    """What is all there, at places known when compiling."""
    if bits % 8:
        c.emit(f"{buffer}[{bits // 8}] = 0;")
    write_cells(c, cells, buffer)


def _write_one_by_one(c: Context, parts: list[Part], guards: list[str], buffer: str, used: str) -> None:
    """What is there, one behind the other."""
    c.emit(f"memset({buffer}, 0, {max((sum(p.width for p in parts) + 7) // 8, 1)});")
    c.emit(f"{used} = 0;")
    for part in parts:
        if isinstance(part.what, Place):
            append = f"append_bytes({buffer}, {used}, {part.what.part('used')}, {part.what.part('bytes')})"
        elif is_wide(part.what.type):
            append = f"append_wide({buffer}, {used}, {part.width}, {part.what.text}.b)"
        else:
            append = f"append_bits({buffer}, {used}, {part.width}, {pattern(part.what)})"
        condition = f"if ({part.valid}) " if part.valid in guards else ""
        c.emit(f"{condition}{used} = {append};")


def _leaves(node: s.Expression) -> list[s.Expression]:
    """The expressions in a list, and in the lists in it."""
    return [leaf for item in node.items for leaf in _leaves(item)] if isinstance(node, s.ListExpression) else [node]


def _evaluations(c: Context, node: s.Expression) -> list[Callable[[], Value]]:
    """Of an expression, and then of whether the header is valid that it is a field of: no text if it is of none."""
    found: list[Value] = []

    def value() -> Value:
        found.append(c.expression(node))
        return found[0]

    def valid() -> Value:
        inside, steps, place = node, 0, found[0].place
        while isinstance(inside, s.Member) and place is not None:
            inside, steps = inside.base, steps + 1
            if isinstance(inside.type, Header):
                return Value(f"{Place(place.root, place.path[:-steps]).part('valid')}", BOOL)
        return Value("", BOOL, True)

    return [value, valid]


def _lay(c: Context, value: Value, parts: list[Part], valid: str, position: Position, member: int | None = None) -> None:
    """Add a value's parts; the cells are where they are if all is there. `member`: its number in the struct that is laid."""
    type_, place = value.type, value.place or Place(value.text)
    if isinstance(type_, (Struct, TupleOf)) and not isinstance(type_, HeaderUnion):
        if isinstance(type_, Header):
            valid = f"{place.part('valid')}"
        for i, f in enumerate(type_.fields):
            inner = place.field(f.name)
            _lay(c, Value(str(inner), f.type, value.fixed, inner), parts, valid, position, i)
        return
    if isinstance(type_, Varbit):
        parts.append(Part(place, valid, type_.width))
        return
    bits = as_bits(type_)
    if bits is None:
        raise unsupported(position, f"{type_} as input of a hash or checksum")
    if is_wide(bits) and value.place is None:
        value = expressions.held(c, value)
    parts.append(Part(Cell(value.text, sum(p.width for p in parts), bits, value.place, member), valid, bits.width))


EXTERNS: dict[tuple[str, str], Callable[[Context, s.Call], Value]] = {
    ("", "hash"): _hash,
    ("", "verify_checksum"): partial(_checksum, False, False),
    ("", "update_checksum"): partial(_checksum, True, False),
    ("", "verify_checksum_with_payload"): partial(_checksum, False, True),
    ("", "update_checksum_with_payload"): partial(_checksum, True, True),
}
