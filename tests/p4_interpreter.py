"""What a checked P4 control does, by the specification: small, slow, and apart from the emitter and the runtime.

It knows numbers, booleans, headers, structs, unions, stacks, functions, actions, loops and hashes. Where the specification leaves a
value open it has simple_switch's: variables begin as zero, and a header that becomes valid has fields of zero.
"""

from __future__ import annotations

import binascii
from copy import deepcopy
from typing import Any

from inalab.switches.embedded import checked
from inalab.switches.embedded import syntax as s
from inalab.switches.embedded.types import BOOL, Bits, EnumType, Header, HeaderUnion, TupleOf, Type, as_bits
from tests.p4_values import Fields, computed, fit, same, written, zero


class ExitError(Exception):
    """`exit`."""


class ReturnError(Exception):
    """`return`, with a value or without."""

    def __init__(self, value: Any = None) -> None:
        super().__init__()
        self.value = value


class BreakError(Exception):
    """`break`."""


class ContinueError(Exception):
    """`continue`."""


class Reference:
    """Where something is; its indices are known."""

    def __init__(self, holder: Any, key: Any) -> None:
        self.holder, self.key = holder, key

    def get(self) -> Any:
        return self.holder[self.key]

    def set(self, value: Any) -> None:
        self.holder[self.key] = value


class HeaderOfUnion(Reference):
    """If it becomes valid, the union's others are not."""

    def set(self, value: Any) -> None:
        super().set(value)
        if value.valid:
            for name, other in self.holder.items():
                if name != self.key:
                    other.valid = False


class Bit(Reference):
    """Bits high to low of a number."""

    def __init__(self, inside: Reference, type_: Bits, high: int, low: int) -> None:
        super().__init__(inside, (high, low))
        self.type = type_

    def get(self) -> int:
        high, low = self.key
        return int(self.holder.get() >> low & (1 << (high - low + 1)) - 1)

    def set(self, value: int) -> None:
        high, low = self.key
        mask = (1 << (high - low + 1)) - 1
        self.holder.set(fit(self.holder.get() & ~(mask << low) | value << low, self.type))


class Nowhere(Reference):
    """An element that a stack does not have, or `_`: what is written is lost."""

    def __init__(self, type_: Type) -> None:
        super().__init__({None: zero(type_)}, None)


class Interpreter:
    """Of one control; `variables` hold its parameters' and its own values."""

    def __init__(self, control: checked.Instance) -> None:
        self.control = control
        self.variables: dict[checked.Variable, Any] = {}
        self.old: list[Any] = []

    def apply(self, *arguments: Any) -> None:
        """Run it on headers, metadata and standard metadata, which it changes."""
        self.variables = dict(zip(self.control.parameters, arguments, strict=True))
        for node in self.control.variables:
            self.statement(node)
        assert self.control.body is not None
        try:
            self.statement(self.control.body)
        except (ExitError, ReturnError):
            pass

    # --- statements (section 12)

    def statement(self, node: Any) -> None:
        getattr(self, f"_do_{type(node).__name__.lower()}")(node)

    def _do_block(self, node: s.Block) -> None:
        for inside in node.statements:
            self.statement(inside)

    def _do_constant(self, node: s.Constant) -> None:
        pass

    def _do_variable(self, node: s.Variable) -> None:
        self.variables[node.symbol] = zero(node.symbol.type) if node.initial is None else self.value(node.initial)

    def _do_assignment(self, node: s.Assignment) -> None:
        to = self.place(node.target)
        if node.operator:
            self.old.append(deepcopy(to.get()))
        to.set(self.value(node.value))
        if node.operator:
            self.old.pop()

    def _do_callstatement(self, node: s.CallStatement) -> None:
        self.value(node.call)

    def _do_if(self, node: s.If) -> None:
        if self.value(node.condition):
            self.statement(node.then)
        elif node.otherwise is not None:
            self.statement(node.otherwise)

    def _do_switch(self, node: s.Switch) -> None:
        selected = self.value(node.selector)
        labels = [case.label for case in node.cases]
        chosen = [i for i, label in enumerate(labels) if not isinstance(label, s.DontCare) and label.constant == selected]
        chosen += [i for i, label in enumerate(labels) if isinstance(label, s.DontCare)]
        if chosen:
            body = next((case.body for case in node.cases[chosen[0] :] if case.body is not None), None)
            if body is not None:
                self.statement(body)

    def _do_for(self, node: s.For) -> None:
        for one in node.first:
            self.statement(one)
        while self.value(node.condition):
            if self._turn(node.body):
                return
            for one in node.then:
                self.statement(one)

    def _do_forin(self, node: s.ForIn) -> None:
        low = self.value(node.low)
        turns = low.values if node.high is None else range(low, self.value(node.high) + 1)
        for one in turns:
            self.variables[node.variable.symbol] = deepcopy(one)
            if self._turn(node.body):
                return

    def _turn(self, body: s.Statement) -> bool:
        """Whether a turn of a loop has left it."""
        try:
            self.statement(body)
        except ContinueError:
            pass
        except BreakError:
            return True
        return False

    def _do_break(self, node: s.Break) -> None:
        raise BreakError

    def _do_continue(self, node: s.Continue) -> None:
        raise ContinueError

    def _do_return(self, node: s.Return) -> None:
        raise ReturnError(None if node.value is None else self.value(node.value))

    def _do_exit(self, node: s.Exit) -> None:
        raise ExitError

    # --- places

    def place(self, node: s.Expression) -> Reference:
        match node:
            case s.DontCare():
                return Nowhere(node.type)
            case s.Name():
                return Reference(self.variables, node.symbol)
            case s.Member() if isinstance(node.base.type, HeaderUnion):
                return HeaderOfUnion(self.place(node.base).get().values, node.name)
            case s.Member():
                return Reference(self.place(node.base).get().values, node.name)
            case s.Slice():
                return Bit(self.place(node.base), node.base.type, *node.bits)
            case s.Index() if isinstance(node.base.type, TupleOf):
                return Reference(self.place(node.base).get().values, f"f{node.index.constant}")
            case s.Index():
                stack, i = self.place(node.base).get(), self.value(node.index)
                return Reference(stack.values, i) if i < len(stack.values) else Nowhere(node.type)
        raise TypeError(type(node).__name__)

    # --- expressions (section 8): operands from left to right

    def value(self, node: s.Expression) -> Any:
        if node.constant is not None:
            return fit(node.constant, as_bits(node.type)) if isinstance(node.type, (Bits, EnumType)) else node.constant  # type: ignore[arg-type]
        return getattr(self, f"_of_{type(node).__name__.lower()}")(node)

    def _of_old(self, node: s.Old) -> Any:
        return self.old[-1]

    def _of_name(self, node: s.Name) -> Any:
        return deepcopy(self.variables[node.symbol])

    def _of_member(self, node: s.Member) -> Any:
        return self.value(node.base).values[node.name]

    def _of_index(self, node: s.Index) -> Any:
        base = self.value(node.base)
        if isinstance(node.base.type, TupleOf):
            return base.values[f"f{node.index.constant}"]
        i = self.value(node.index)
        return base.values[i] if i < len(base.values) else zero(node.type)

    def _of_slice(self, node: s.Slice) -> int:
        high, low = node.bits
        return int(self.value(node.base) >> low & (1 << (high - low + 1)) - 1)

    def _of_unary(self, node: s.Unary) -> Any:
        value = self.value(node.operand)
        return not value if node.operator == "!" else fit(~value if node.operator == "~" else -value, node.type)

    def _of_conditional(self, node: s.Conditional) -> Any:
        return self.value(node.yes if self.value(node.condition) else node.no)

    def _of_cast(self, node: s.Cast) -> Any:
        value = self.value(node.operand)
        bits = as_bits(node.type)
        if node.type == BOOL or bits is None:
            return bool(value) if node.type == BOOL else value
        return fit(int(value), bits)

    def _of_listexpression(self, node: s.ListExpression) -> Fields:
        names = [f.name for f in node.type.fields]
        return Fields(node.type, dict(zip(names, [self.value(item) for item in node.items], strict=True)), True)

    def _of_binary(self, node: s.Binary) -> Any:
        if node.operator == "&&":
            return self.value(node.left) and self.value(node.right)
        if node.operator == "||":
            return self.value(node.left) or self.value(node.right)
        a, b = self.value(node.left), self.value(node.right)
        if node.operator in ("==", "!="):
            return same(a, b) == (node.operator == "==")
        if node.operator == "++":
            width = node.right.type.width
            return fit(a << width | b & (1 << width) - 1, node.type)
        return computed(node.operator, a, b, node.left.type)

    # --- calls (section 6.8)

    def _of_call(self, node: s.Call) -> Any:
        match node.callee:
            case checked.Action() | checked.Function() as callee:
                return self._call(callee, node.arguments)
            case checked.BuiltIn(name):
                assert isinstance(node.function, s.Member)
                return self._built_in(name, node.function.base)
            case checked.ExternCall("hash"):
                return self._hash(node)
        raise TypeError(f"a call of {node.callee}")

    def _call(self, callee: checked.Action | checked.Function, arguments: list[s.Expression]) -> Any:
        """Copy in from left to right, run, and copy out in the same order, also if it exits."""
        given, places = [], []
        for parameter, argument in zip(callee.parameters, arguments, strict=True):
            if parameter.direction in ("out", "inout"):
                places.append((parameter, self.place(argument)))
                given.append(deepcopy(places[-1][1].get()) if parameter.direction == "inout" else zero(parameter.type))
            else:
                given.append(self.value(argument))
        self.variables |= dict(zip(callee.parameters, given, strict=True))
        assert callee.body is not None
        result = None
        try:
            self.statement(callee.body)
        except ReturnError as returned:
            result = returned.value
        finally:
            for parameter, place in places:
                place.set(self.variables[parameter])
        return result

    def _built_in(self, name: str, base: s.Expression) -> Any:
        if name == "isValid":
            value = self.value(base)
            return any(one.valid for one in value.values.values()) if isinstance(base.type, HeaderUnion) else value.valid
        place = self.place(base)
        if name == "setInvalid":
            place.get().valid = False
        elif not place.get().valid:
            fresh = zero(base.type)
            fresh.valid = True
            place.set(fresh)
        return None

    def _hash(self, node: s.Call) -> None:
        result, algorithm, base, data, most = node.arguments
        to = self.place(result)
        low, bits, high = self.value(base), leaves(self, data), self.value(most)
        text = "".join(bits)
        text += "0" * (-len(text) % 8)
        octets = bytes(int(text[i : i + 8], 2) for i in range(0, len(text), 8))
        name = algorithm.type.members[algorithm.constant]
        number = int.from_bytes(octets[:8], "big") if name == "identity" else binascii.crc32(octets)
        to.set(fit(low + number % (high or 1), result.type))


def leaves(machine: Interpreter, node: s.Expression) -> list[str]:
    """The bits of what is hashed; a header's that is not valid, and its fields', are left out (simple_switch)."""
    if isinstance(node, s.ListExpression):
        return [bits for item in node.items for bits in leaves(machine, item)]
    value = machine.value(node)
    inside = node
    while isinstance(inside, s.Member):
        inside = inside.base
        if isinstance(inside.type, Header) and not machine.value(inside).valid:
            return []
    return written(value, node.type)
