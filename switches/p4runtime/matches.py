"""Keys of table entries: match fields in messages, as the words of commands (P4Runtime 1.4, section 9.1.1)."""

from __future__ import annotations

from typing import Any

from p4.config.v1 import p4info_pb2

from .bytestrings import decode, encode
from .errors import invalid
from .pipeline import require

KINDS = p4info_pb2.MatchField
ORDERED = {KINDS.TERNARY, KINDS.RANGE, KINDS.OPTIONAL}  # tables with such keys order their entries by priority
HIGHEST = 2**31 - 1

Key = tuple[tuple[int, ...], ...]  # the numbers of each match field, () where any value matches


def has_priorities(table: Any) -> bool:
    return any(f.match_type in ORDERED for f in table.match_fields)


def key_of(table: Any, entry: Any, any_priority: bool = False) -> tuple[Key, int]:
    """What tells an entry from others: its key and its priority, which a read may leave out. Raises P4RuntimeError."""
    given = {}
    for match in entry.match:
        require(match.field_id not in given, f"field {match.field_id} of table {table.preamble.name} is given twice")
        given[match.field_id] = match
    key = tuple(_field(table, f, given.pop(f.id, None)) for f in table.match_fields)
    require(not given, f"table {table.preamble.name} has no match field {next(iter(given), '')}")
    if has_priorities(table):
        require(any_priority or 0 < entry.priority <= HIGHEST, f"an entry of table {table.preamble.name} needs a priority above 0")
    else:
        require(entry.priority == 0, f"entries of table {table.preamble.name} have no priority")
    return key, entry.priority


def _field(table: Any, described: Any, match: Any) -> tuple[int, ...]:
    name, width = f"{described.name} of table {table.preamble.name}", described.bitwidth
    if match is None:
        require(described.match_type != KINDS.EXACT, f"{name} is missing")
        return ()
    kind = match.WhichOneof("field_match_type")
    wanted = KINDS.MatchType.Name(described.match_type).lower()
    require(kind == wanted, f"{name} is matched as {wanted}, and {kind} is given")
    match kind:
        case "exact" | "optional":
            return (decode(getattr(match, kind).value, width, name),)
        case "lpm":
            value, length = decode(match.lpm.value, width, name), match.lpm.prefix_len
            require(0 < length <= width, f"{name} has a prefix of {length} bits: leave the field out to match any value")
            require(value & ((1 << width - length) - 1) == 0, f"{name} has bits behind its prefix of {length}")
            return value, length
        case "ternary":
            value, mask = decode(match.ternary.value, width, name), decode(match.ternary.mask, width, name)
            require(mask != 0, f"{name} has a mask of 0: leave the field out to match any value")
            require(value & ~mask == 0, f"{name} has bits outside its mask")
            return value, mask
        case "range":
            low, high = decode(match.range.low, width, name), decode(match.range.high, width, name)
            require(low <= high, f"{name} has a range that ends before it begins")
            require((low, high) != (0, (1 << width) - 1), f"{name} has the whole range: leave the field out to match any value")
            return low, high
    raise invalid(f"{name} is matched as {kind}, which is not possible")


def words_of(table: Any, key: Key) -> list[str]:
    """A key in the words of table_add."""
    return [_word(f.match_type, f.bitwidth, numbers) for f, numbers in zip(table.match_fields, key, strict=True)]


def _word(kind: int, width: int, numbers: tuple[int, ...]) -> str:
    if kind == KINDS.RANGE:
        return "{}->{}".format(*(numbers or (0, (1 << width) - 1)))
    if kind == KINDS.LPM:
        return "{}/{}".format(*(numbers or (0, 0)))
    if not numbers:
        return "0&&&0"
    return str(numbers[0]) if kind in (KINDS.EXACT, KINDS.OPTIONAL) else f"{numbers[0]}&&&{numbers[1]}"


def priority_word(table: Any, priority: int) -> list[str]:
    """A priority as commands have it: the lowest wins, and in P4Runtime the highest."""
    return [str(HIGHEST - priority)] if has_priorities(table) else []


def fill(table: Any, key: Key, entry: Any) -> None:
    """Write a key into a message."""
    for f, numbers in zip(table.match_fields, key, strict=True):
        if not numbers:
            continue
        match = entry.match.add(field_id=f.id)
        octets = encode(numbers[0])
        match f.match_type:
            case KINDS.EXACT:
                match.exact.value = octets
            case KINDS.OPTIONAL:
                match.optional.value = octets
            case KINDS.LPM:
                match.lpm.value, match.lpm.prefix_len = octets, numbers[1]
            case KINDS.TERNARY:
                match.ternary.value, match.ternary.mask = octets, encode(numbers[1])
            case KINDS.RANGE:
                match.range.low, match.range.high = octets, encode(numbers[1])
