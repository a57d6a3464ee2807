"""A whole pipeline by the specification: its parser, its tables with entries from commands, its registers and counters.

It extends the interpreter of controls. It is small and slow, and shares nothing with the emitter or the runtime. Where the
specification leaves something open, it does as simple_switch: `reject`, and a select without a case that matches, accept; keys of headers that are not valid are zero.
"""

from __future__ import annotations

import re
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from inalab.switches.embedded import checked
from inalab.switches.embedded import syntax as s
from inalab.switches.embedded.types import Bits, Header, Stack, bit_width
from tests.p4_interpreter import Interpreter, Nowhere, Reference
from tests.p4_values import Fields, fit, written, zero


class ParserError(Exception):
    """The name of an error of parsing."""


@dataclass
class Entry:
    keys: list[checked.Pattern]
    action: int
    data: list[int]
    order: tuple[int, ...]  # the lowest goes first


@dataclass
class Outcome:
    """What apply() gives."""

    values: dict[str, Any]


class Machine(Interpreter):
    """Runs a parser and an ingress; registers, counters and entries last from packet to packet."""

    def __init__(self, program: checked.Program, commands: list[str]) -> None:
        super().__init__(program.blocks[2])
        self.program = program
        self.parser = program.blocks[0]
        self.state: dict[checked.ExternObject, Any] = {}
        self.following: dict[int, int] = {}  # where the next element of a stack goes
        self.bits, self.at = "", 0
        self.open = False  # whether a packet has looked into a header that is not valid
        self.tables = {table.name: table for table in self.control.tables}
        self.entries = {name: _constant(table) for name, table in self.tables.items()}
        for line in commands:
            self.add(line)
        for one in self.control.externs:
            self.state[one] = Counter() if one.type.name == "counter" else [0] * int(one.arguments[0].constant or 0)

    # --- packets

    def packet(self, data: bytes) -> list[tuple[int, bytes]]:
        """What leaves, and where."""
        headers, metadata, standard = zero(self.program.headers), zero(self.program.metadata), zero(self.program.standard)
        self.bits, self.at, self.following = "".join(f"{byte:08b}" for byte in data), 0, {}
        try:
            self._parse(headers, metadata, standard)
        except ParserError as error:
            standard.values["parser_error"] = self.program.errors.index(str(error))
        rest = self.bits[self.at :]
        self.apply(headers, metadata, standard)
        port = standard.values["egress_spec"]
        if port == 511:
            return []
        out = emitted(headers) + rest
        return [(port, bytes(int(out[i : i + 8], 2) for i in range(0, len(out), 8)))]

    def settled(self, packets: list[bytes]) -> list[bytes]:
        """The packets whose result is fully determined by the specification and simple_switch."""
        found = []
        for packet in packets:
            before = deepcopy(list(self.state.values()))
            self.open = False
            self.packet(packet)
            if self.open:
                self.state = dict(zip(self.state, before, strict=True))
            else:
                found.append(packet)
        return found

    # --- parsers (section 13)

    def _parse(self, *arguments: Fields) -> None:
        self.variables = dict(zip(self.parser.parameters[1:], arguments, strict=True))
        states, name = {state.name: state for state in self.parser.states}, "start"
        while name not in ("accept", "reject"):
            state = states[name]
            for statement in state.statements:
                self.statement(statement)
            name = state.next or self._select(state)

    def _select(self, state: checked.State) -> str:
        values = [self.value(one) for one in state.select]
        for case in state.cases:
            if all(_matches(key, value) for key, value in zip(case.keys, values, strict=True)):
                return case.state
        return "accept"

    def _take(self, bits: int) -> str:
        if self.at + bits > len(self.bits):
            raise ParserError("PacketTooShort")
        return self.bits[self.at : self.at + bits]

    def _extract(self, node: s.Call) -> None:
        target = node.arguments[0]
        assert isinstance(target.type, Header)
        to = self.place(target)
        if isinstance(to, Nowhere):
            raise ParserError("StackOutOfBounds")
        bits = self._take(target.type.width)
        to.set(read(target.type, bits))
        self.at += target.type.width
        if isinstance(target, s.Member) and target.name == "next":
            stack = self.place(target.base).get()
            self.following[id(stack)] = self.following.get(id(stack), 0) + 1

    def place(self, node: s.Expression) -> Reference:
        if isinstance(node, s.Member) and isinstance(node.base.type, Stack) and node.name in ("next", "last"):
            stack = self.place(node.base).get()
            i = self.following.get(id(stack), 0) - (node.name == "last")
            return Reference(stack.values, i) if 0 <= i < len(stack.values) else Nowhere(node.type)
        return super().place(node)

    def _of_member(self, node: s.Member) -> Any:
        if isinstance(node.base.type, Stack):
            return deepcopy(self.place(node).get())
        if isinstance(node.base.type, Header):
            self.open = self.open or not self.value(node.base).valid
        return super()._of_member(node)

    # --- tables (section 14.2)

    def add(self, line: str) -> None:
        """An entry from the words of table_add."""
        _, name, action, *words = line.split()
        table = self.tables[name]
        keys, rest = words[: len(table.keys)], words[len(table.keys) + 1 :]
        number = next(i for i, listed in enumerate(table.actions) if listed.action.name == action)
        parameters = len(table.actions[number].action.data)
        patterns = [_pattern(word, key) for word, key in zip(keys, table.keys, strict=True)]
        order = (int(rest[parameters]),) if len(rest) > parameters else _by_length(table, patterns)
        self.entries[name].append(Entry(patterns, number, [int(word) for word in rest[:parameters]], order))

    def _apply_table(self, table: checked.Table) -> Outcome:
        values = [self._key(key.expression) for key in table.keys]
        found = [e for e in self.entries[table.name] if all(_matches(k, v) for k, v in zip(e.keys, values, strict=True))]
        entry = min(found, key=lambda e: e.order, default=None)
        number, data = (table.default, table.default_data) if entry is None else (entry.action, entry.data)
        listed = table.actions[number]
        for parameter, value in zip(listed.action.data, data, strict=True):
            assert isinstance(parameter.type, Bits)
            self.variables[parameter] = fit(value, parameter.type)
        assert listed.action.body is not None
        self.statement(listed.action.body)
        return Outcome({"hit": entry is not None, "miss": entry is None, "action_run": number})

    def _key(self, node: s.Expression) -> Any:
        """A field's value; zero where its header is not valid (simple_switch)."""
        inside = node
        while isinstance(inside, s.Member):
            inside = inside.base
            if isinstance(inside.type, Header) and not self.value(inside).valid:
                return 0
        return self.value(node)

    def _do_switch(self, node: s.Switch) -> None:
        if node.table is None:
            super()._do_switch(node)
            return
        ran = self.value(node.table).values["action_run"]
        bodies = [case.body for case in node.cases if isinstance(case.label, s.DontCare) or case.label.constant == ran]
        if bodies and bodies[0] is not None:
            self.statement(bodies[0])

    # --- calls

    def _of_call(self, node: s.Call) -> Any:
        match node.callee:
            case checked.Apply(checked.Table() as table):
                return self._apply_table(table)
            case checked.ExternCall("extract"):
                return self._extract(node)
            case checked.ExternCall("lookahead"):
                return int(self._take(bit_width(node.type)), 2)
            case checked.ExternCall("advance"):
                bits = self.value(node.arguments[0])
                self._take(bits)
                self.at += bits
                return None
            case checked.ExternCall("verify"):
                if not self.value(node.arguments[0]):
                    raise ParserError(self.program.errors[self.value(node.arguments[1])])
                return None
            case checked.ExternCall("mark_to_drop"):
                self.place(node.arguments[0]).get().values["egress_spec"] = 511
                return None
            case checked.ExternCall("read", object=checked.ExternObject() as register):
                cells, i = self.state[register], self.value(node.arguments[1])
                to = self.place(node.arguments[0])
                to.set(cells[i])
                return None
            case checked.ExternCall("write", object=checked.ExternObject() as register):
                i, value = self.value(node.arguments[0]), self.value(node.arguments[1])
                self.state[register][i] = value
                return None
            case checked.ExternCall("count", object=checked.ExternObject() as counter):
                self.state[counter][self.value(node.arguments[0])] += 1
                return None
        return super()._of_call(node)


def _constant(table: checked.Table) -> list[Entry]:
    return [Entry(one.keys, one.action, one.data, (one.precedence, i)) for i, one in enumerate(table.entries)]


def _pattern(word: str, key: checked.Key) -> checked.Pattern:
    width = bit_width(key.expression.type)
    if match := re.fullmatch(r"(\d+)->(\d+)", word):
        return checked.Pattern("range", int(match[1]), int(match[2]))
    if match := re.fullmatch(r"(\d+)&&&(\d+)", word):
        return checked.Pattern("mask", int(match[1]), int(match[2]))
    if match := re.fullmatch(r"(\d+)/(\d+)", word):
        return checked.Pattern("mask", int(match[1]), (1 << int(match[2])) - 1 << (width - int(match[2])))
    return checked.Pattern("mask", int(word), (1 << width) - 1)


def _by_length(table: checked.Table, patterns: list[checked.Pattern]) -> tuple[int, ...]:
    return tuple(-one.high.bit_count() for one, key in zip(patterns, table.keys, strict=True) if key.kind == "lpm")


def _matches(pattern: checked.Pattern, value: int) -> bool:
    if pattern.kind == "any":
        return True
    if pattern.kind == "range":
        return pattern.low <= value <= pattern.high
    return value & pattern.high == pattern.low & pattern.high


def read(type_: Header, bits: str) -> Fields:
    """A header's fields from the bits of a packet."""
    made, at = zero(type_), 0
    for f in type_.fields:
        width = bit_width(f.type)
        made.values[f.name] = fit(int(bits[at : at + width], 2), f.type)
        at += width
    made.valid = True
    assert isinstance(made, Fields)
    return made


def emitted(value: Any) -> str:
    """The bits that the deparser emits of headers."""
    if not isinstance(value, Fields):
        return "".join(emitted(one) for one in value.values)
    if isinstance(value.type, Header):
        return "".join(written(value, value.type))
    return "".join(emitted(one) for one in value.values.values())
