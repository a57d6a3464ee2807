"""The numbers and short names of P4Info, as p4c chooses them (control-plane/p4RuntimeSymbolTable.cpp).

An id is 8 bits of kind (P4Ids.Prefix), followed by 24 bits of a hash of the name, or by the value of @id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from p4.config.v1 import p4info_pb2

from ..embedded import syntax as s
from ..embedded.errors import CompileError

IDS = p4info_pb2.P4Ids
HASHED = 0xFFFFFF


def one_at_a_time(name: str) -> int:
    """Bob Jenkins' hash of 32 bits."""
    value = 0
    for byte in name.encode():
        value = (value + byte) & 0xFFFFFFFF
        value = (value + (value << 10)) & 0xFFFFFFFF
        value ^= value >> 6
    value = (value + (value << 3)) & 0xFFFFFFFF
    value ^= value >> 11
    return (value + (value << 15)) & 0xFFFFFFFF


class Numbering:
    """All named things of a program, by their kinds (P4Ids.Prefix) and the names that the control plane uses."""

    def __init__(self, things: Iterable[tuple[int, str, Sequence[s.Annotation]]]) -> None:
        self.ids: dict[tuple[int, str], int] = {}
        waiting: set[tuple[int, str]] = set()
        self.suffixes: dict[str, set[str]] = {}  # what ends in them
        for kind, name, notes in things:
            given = given_id(notes)
            if given is None:
                waiting.add((kind, name))
            else:
                self.ids[kind, name] = kind << 24 | given & HASHED
            parts = name.split(".")
            for i in range(len(parts)):
                self.suffixes.setdefault(".".join(parts[i:]), set()).add(name)
        taken = set(self.ids.values())
        for kind, name in sorted(waiting):  # in this order, because those that hash alike are moved on
            number = one_at_a_time(name)
            while kind << 24 | number & HASHED in taken:
                number += 1
            self.ids[kind, name] = kind << 24 | number & HASHED
            taken.add(self.ids[kind, name])

    def alias(self, name: str) -> str:
        """The shortest end of a name that belongs to no other."""
        parts = name.split(".")
        ends = (".".join(parts[-count:]) for count in range(1, len(parts) + 1))
        return next((end for end in ends if len(self.suffixes[end]) == 1), name)


def given_id(annotations: Sequence[s.Annotation]) -> int | None:
    """The number in @id(…)."""
    for annotation in annotations:
        if annotation.name == "id":
            try:
                return int(annotation.text(), 0)
            except (IndexError, ValueError):
                raise CompileError(annotation.position, "@id takes one number") from None
    return None


def field_ids(of: Sequence[Sequence[s.Annotation]]) -> list[int]:
    """The numbers of match fields, parameters or metadata by their annotations: @id, or their places from 1 on."""
    given = [given_id(notes) for notes in of]
    taken, found, place = {one for one in given if one is not None}, [], 1
    for one in given:
        if one is None:
            while place in taken:
                place += 1
            taken.add(place)
        else:
            place += 1
        found.append(place if one is None else one)
    return found
