"""Expressions: checked against P4's types and written as C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from switches.embedded import arithmetic
from switches.embedded import syntax as s
from switches.embedded.arithmetic import COMPARISONS, boolean, number
from switches.embedded.errors import CompileError, Position, unsupported
from switches.embedded.scope import ConstantSymbol, Scope, TableSymbol, Target, TypeSymbol, Value, VariableSymbol
from switches.embedded.text import c_string
from switches.embedded.types import (
    BOOL,
    INTEGER,
    STRING,
    ApplyResult,
    Bits,
    Bool,
    EnumType,
    Integer,
    PacketType,
    Stack,
    Struct,
    TupleOf,
    Type,
    Void,
    as_bits,
    bit_width,
    c_name,
    c_type,
    literal,
)  # fmt: skip
from switches.embedded.unit import Unit


class Expressions(Unit):
    """Translates expressions to values."""

    parser_fail: str | None = None  # the label to go to on an error, inside a parser
    freeze = False  # indices of stacks go to temporaries

    def expression(self, node: s.Expression, scope: Scope, expected: Type | None = None) -> Value:
        """The value of an expression; `expected` gives a list expression its type."""
        if isinstance(node, s.Number):
            return self.fitted(node.value, INTEGER if node.width is None else Bits(node.width, node.signed), node.position)
        if isinstance(node, s.Boolean):
            return boolean(node.value)
        if isinstance(node, s.String):
            return Value(c_string(node.value), STRING, node.value)
        if isinstance(node, s.Name):
            return self._name(node, scope)
        if isinstance(node, s.Member):
            return self._member(node, scope)
        if isinstance(node, s.ErrorMember):
            return self._enum_member(self.error_type(), node.name, node.position)
        if isinstance(node, s.Index):
            return self._index(node, scope)
        if isinstance(node, s.Slice):
            value = self.scalar(self.expression(node.base, scope), node.position)
            return arithmetic.slice_of(value, self.constant(node.high, scope), self.constant(node.low, scope), node.position)
        if isinstance(node, s.Unary):
            return self._unary(node, scope)
        if isinstance(node, s.Binary):
            return self._binary(node, scope)
        if isinstance(node, s.Conditional):
            return self._conditional(node, scope)
        if isinstance(node, s.Cast):
            return self.cast(self.expression(node.operand, scope), self.resolve(node.type, scope), node.position)
        if isinstance(node, s.Call):
            return self.call(node, scope)
        if isinstance(node, s.ListExpression):
            return self._list(node, scope, expected)
        raise CompileError(node.position, "an expression is needed here")

    def call(self, node: s.Call, scope: Scope) -> Value:
        raise AssertionError("Calls has it")

    def in_order(self, evaluations: Sequence[Callable[[], Value]]) -> list[Value]:
        """Values of expressions evaluated from left to right (section 8.1): what a later one does changes no earlier one."""
        values: list[Value] = []
        for evaluate in evaluations:
            value, before = self.apart(evaluate)
            if before:
                values = [self.held(v) for v in values]
                self.emit_all(before)
            values.append(value)
        return values

    def held(self, value: Value) -> Value:
        """The value in a temporary of its own, unless it is constant."""
        if value.items is not None:
            return Value(value.text, value.type, None, False, [self.held(item) for item in value.items])
        if value.constant is not None or isinstance(value.type, (ApplyResult, PacketType, Void)):
            return value
        name = self.temporary()
        self.emit(f"const {c_type(value.type)} {name} = {value.text};")
        return Value(name, value.type)

    def target(self, node: s.Expression, scope: Scope, freeze: bool = False) -> Target:
        """What an assignment writes. With `freeze`, the indices of stacks in it are computed now, once."""
        before, self.freeze = self.freeze, freeze or self.freeze
        base = node.base if isinstance(node, s.Slice) else node
        place = self.place(base, scope)
        self.freeze = before
        if not isinstance(node, s.Slice):
            return Target(place, place.type)
        bits = as_bits(place.type)
        if bits is None or bits.wide:
            raise unsupported(node.position, f"an assignment to a slice of {place.type}")
        high, low = self.constant(node.high, scope), self.constant(node.low, scope)
        if not isinstance(place.type, Bits) or not 0 <= low <= high < bits.width:
            raise CompileError(node.position, f"[{high}:{low}] is not within {place.type}")
        return Target(place, Bits(high - low + 1), high, low)

    def coerce(self, value: Value, type_: Type, position: Position) -> Value:
        """The value as `type_`, by the conversions that P4 makes by itself (section 8.11.2); an error where there is none."""
        if value.type == type_:
            return value
        if isinstance(type_, Bits):
            if isinstance(value.type, Integer) and isinstance(value.constant, int):
                if type_.wide:
                    self.wide(type_)
                return self.fitted(value.constant, type_, position)
            if isinstance(value.type, EnumType) and value.type.underlying == type_:
                return Value(value.text, type_, value.constant)
        if isinstance(type_, (Struct, TupleOf)) and value.items is not None:
            return value
        raise CompileError(position, f"this is {value.type}, where {type_} is needed")

    def fitted(self, value: int, type_: Type, position: Position) -> Value:
        """A constant of a type; p4c cuts one that does not fit, and warns."""
        if message := arithmetic.overflow(value, type_):
            self.warn(position, message)
        return number(value, type_)

    def scalar(self, value: Value, position: Position) -> Value:
        """The value if it is bit<W>, int<W> or a serializable enum (which counts as its bits)."""
        if isinstance(value.type, EnumType) and value.type.underlying:
            return Value(value.text, value.type.underlying, value.constant, value.assignable)
        if not isinstance(value.type, Bits):
            raise CompileError(position, f"this is {value.type}, where bit<W> or int<W> is needed")
        return value

    def condition(self, node: s.Expression, scope: Scope) -> Value:
        value = self.expression(node, scope)
        if not isinstance(value.type, Bool):
            raise CompileError(node.position, f"a condition must be bool, and this is {value.type}")
        return value

    def cast(self, value: Value, type_: Type, position: Position) -> Value:
        if value.type == type_:
            return value
        if isinstance(type_, Bits):
            if type_.wide:
                self.wide(type_)
            if isinstance(value.type, Integer) and isinstance(value.constant, int):
                return self.fitted(value.constant, type_, position)
            if isinstance(value.type, Bool) and type_ == Bits(1):
                known = None if value.constant is None else int(value.constant)
                return Value(f"((uint32_t){value.text})", type_, known)
            if isinstance(value.type, Bits):
                self._check_cast(value.type, type_, position)
                if isinstance(value.constant, int):
                    return self.fitted(value.constant, type_, position)
                return arithmetic.convert(value, type_, position)
            if isinstance(value.type, EnumType) and value.type.underlying:
                return arithmetic.convert(self.scalar(value, position), type_, position)
        if isinstance(type_, Bool):
            if value.type == Bits(1):
                return Value(f"({value.text} != 0)", BOOL, None if value.constant is None else bool(value.constant))
            if isinstance(value.type, Integer) and value.constant in (0, 1):
                return boolean(bool(value.constant))
        if isinstance(type_, EnumType) and type_.underlying and isinstance(value.type, (Bits, Integer)):
            inner = self.coerce(value, type_.underlying, position)
            return Value(inner.text, type_, inner.constant)
        raise CompileError(position, f"{value.type} cannot be cast to {type_}")

    def _check_cast(self, from_: Bits, to: Bits, position: Position) -> None:
        if from_.signed != to.signed and from_.width != to.width:
            raise CompileError(position, f"a cast from {from_} to {to} changes sign and width at once: cast in two steps")

    def _name(self, node: s.Name, scope: Scope) -> Value:
        symbol = scope.get(node.name, node.position)
        if isinstance(symbol, VariableSymbol):
            return Value(symbol.text, symbol.type, None, symbol.assignable)
        if isinstance(symbol, ConstantSymbol):
            return symbol.value
        raise CompileError(node.position, f"{node.name} is no value")

    def _member(self, node: s.Member, scope: Scope) -> Value:
        if isinstance(node.base, s.Name):
            symbol = scope.find(node.base.name)
            if isinstance(symbol, TypeSymbol) and isinstance(symbol.type, EnumType):
                return self._enum_member(symbol.type, node.name, node.position)
        base = self.expression(node.base, scope)
        if isinstance(base.type, Struct):
            found = base.type.field(node.name)
            if found is None:
                raise CompileError(node.position, f"{base.type} has no field {node.name}")
            return Value(f"{base.text}.{c_name(node.name)}", found.type, None, base.assignable)
        if isinstance(base.type, Stack):
            return self._stack_member(base, base.type, node)
        if isinstance(base.type, ApplyResult) and node.name in ("hit", "miss"):
            return Value(f"{base.text}.hit" if node.name == "hit" else f"(!{base.text}.hit)", BOOL)
        raise CompileError(node.position, f"{base.type} has no member {node.name}")

    def _stack_member(self, base: Value, stack: Stack, node: s.Member) -> Value:
        if node.name == "size":
            return number(stack.size, Bits(32))
        if node.name in ("next", "last", "lastIndex") and self.parser_fail is None:
            raise CompileError(node.position, f"{node.name} of a header stack can be used in a parser only")
        if node.name == "lastIndex":
            return Value(f"({base.text}.next_ - 1)", Bits(32))
        if node.name == "last":
            return Value(f"{base.text}.at[stack_last({base.text}.next_, {stack.size})]", stack.element)
        if node.name == "next":
            return Value(f"{base.text}.at[{base.text}.next_]", stack.element, None, base.assignable)
        raise CompileError(node.position, f"a header stack has no member {node.name}")

    def _enum_member(self, type_: EnumType, name: str, position: Position) -> Value:
        if name not in type_.members:
            raise CompileError(position, f"{type_} has no member {name}")
        value = type_.value(name)
        return Value(literal(value, as_bits(type_) or Bits(32)), type_, value)

    def _index(self, node: s.Index, scope: Scope) -> Value:
        base = self.expression(node.base, scope)
        index = self.expression(node.index, scope)
        if not isinstance(base.type, Stack):
            raise CompileError(node.position, f"{base.type} cannot be indexed")
        if isinstance(index.constant, int):
            if not 0 <= index.constant < base.type.size:
                raise CompileError(node.position, f"index {index.constant} is not within {base.type}")
            place = str(index.constant)
        else:  # beyond the end lies one spare element, which nothing reads
            place = f"stack_index({self.scalar(index, node.position).text}, {base.type.size})"
            if self.freeze:
                held = self.temporary("index")
                self.emit(f"const uint32_t {held} = {place};")
                place = held
        return Value(f"{base.text}.at[{place}]", base.type.element, None, base.assignable)

    def _unary(self, node: s.Unary, scope: Scope) -> Value:
        if node.operator == "!":
            value = self.condition(node.operand, scope)
            return Value(f"(!{value.text})", BOOL, None if value.constant is None else not value.constant)
        value = self.expression(node.operand, scope)
        if isinstance(value.type, Integer) and isinstance(value.constant, int):
            if node.operator == "~":
                raise CompileError(node.position, "~ needs a number with a width")
            return number(-value.constant if node.operator == "-" else value.constant)
        value = self.scalar(value, node.position)
        type_ = value.type
        assert isinstance(type_, Bits)
        if node.operator == "+":
            return value
        if isinstance(value.constant, int):
            return number(~value.constant if node.operator == "~" else -value.constant, type_)
        if type_.wide:
            raise unsupported(node.position, f"{node.operator} on {type_} (arithmetic ends at 64 bits)")
        bits = 32 if type_.width <= 32 else 64
        return Value(arithmetic.wrap(f"{node.operator}(uint{bits}_t){value.text}", type_), type_)

    def _binary(self, node: s.Binary, scope: Scope) -> Value:
        if node.operator in ("&&", "||"):
            a = self.condition(node.left, scope)
            b, before = self.apart(lambda: self.condition(node.right, scope))
            if before:  # what the right side does must happen only if it is evaluated
                held = self.temporary("is")
                self.emit(f"bool {held} = {a.text};")
                with self.indented(f"if ({held if node.operator == '&&' else '!' + held}) {{"):
                    self.emit_all(before)
                    self.emit(f"{held} = {b.text};")
                return Value(held, BOOL)
            if a.constant is not None and b.constant is not None:
                return boolean(bool(a.constant and b.constant if node.operator == "&&" else a.constant or b.constant))
            return Value(f"({a.text} {node.operator} {b.text})", BOOL)
        a, b = self.in_order([lambda: self.expression(node.left, scope), lambda: self.expression(node.right, scope)])
        if isinstance(a.type, Integer) and isinstance(b.type, Integer):
            assert isinstance(a.constant, int) and isinstance(b.constant, int)
            if node.operator in ("++", "|+|", "|-|"):
                raise CompileError(node.position, f"{node.operator} needs numbers with a width")
            if node.operator in ("/", "%", "&", "|", "^") and (a.constant < 0 or b.constant < 0):
                raise CompileError(node.position, f"{node.operator} is not defined on negative numbers")
            folded = arithmetic.fold(node.operator, a.constant, b.constant, node.position)
            return boolean(folded) if node.operator in COMPARISONS else number(int(folded))
        if node.operator in ("<<", ">>"):
            if isinstance(a.type, Integer):
                raise CompileError(node.position, "the left side of a shift needs a width")
            return self._shift(node, self.scalar(a, node.position), b)
        if node.operator == "++":
            return arithmetic.concatenate(self.scalar(a, node.position), self.scalar(b, node.position), node.position)
        if node.operator in ("==", "!=") and a.type == b.type and isinstance(a.type, (Bool, EnumType)):
            if a.constant is not None and b.constant is not None:
                return boolean((a.constant == b.constant) == (node.operator == "=="))
            return Value(f"({a.text} {node.operator} {b.text})", BOOL)
        a, b = self._unify(a, b, node.position)
        return arithmetic.binary(node.operator, self.scalar(a, node.position), self.scalar(b, node.position), node.position)

    def _shift(self, node: s.Binary, a: Value, b: Value) -> Value:
        amount = b if isinstance(b.type, Integer) else self.scalar(b, node.position)
        known = amount.constant
        if isinstance(known, int):
            if known < 0:
                raise CompileError(node.position, f"the amount of a shift is negative: {known}")
            if known >= bit_width(a.type):
                self.warn(node.position, f"shifting value with {bit_width(a.type)} bits by {known}")
            amount = number(known)
        if node.operator == "<<" and isinstance(a.constant, int) and isinstance(known, int) and known < 4096:
            return self.fitted(a.constant << known, a.type, node.position)
        return arithmetic.shift(node.operator, a, amount, node.position)

    def _unify(self, a: Value, b: Value, position: Position) -> tuple[Value, Value]:
        """Both operands at one type: a number without a width takes the other's."""
        if isinstance(a.type, (Struct, Stack, TupleOf)):
            raise unsupported(position, f"an operator on {a.type}")
        if isinstance(a.type, EnumType) and isinstance(b.type, EnumType) and a.type != b.type:
            raise CompileError(position, f"the operands are {a.type} and {b.type}: cast one of them")
        if isinstance(a.type, EnumType) or isinstance(b.type, EnumType):
            a = self.scalar(a, position) if not isinstance(a.type, Integer) else a
            b = self.scalar(b, position) if not isinstance(b.type, Integer) else b
        if isinstance(a.type, Integer):
            return self.coerce(a, b.type, position), b
        if isinstance(b.type, Integer):
            return a, self.coerce(b, a.type, position)
        if a.type != b.type:
            raise CompileError(position, f"the operands are {a.type} and {b.type}: cast one of them")
        return a, b

    def _conditional(self, node: s.Conditional, scope: Scope) -> Value:
        condition = self.condition(node.condition, scope)
        a, before_a = self.apart(lambda: self.expression(node.yes, scope))
        b, before_b = self.apart(lambda: self.expression(node.no, scope))
        if isinstance(a.type, Integer) and isinstance(b.type, Integer):
            if condition.constant is None:
                raise CompileError(node.position, "one side of ?: needs a width")
            return a if condition.constant else b
        if a.type != b.type:
            a, b = self._unify(a, b, node.position)
        if condition.constant is not None:
            self.emit_all(before_a if condition.constant else before_b)
            return a if condition.constant else b
        if before_a or before_b:  # what a side does must happen only if it is evaluated
            held = self.temporary()
            self.emit(f"{c_type(a.type)} {held};")
            for opening, before, side in ((f"if ({condition.text}) {{", before_a, a), ("else {", before_b, b)):
                with self.indented(opening):
                    self.emit_all(before)
                    self.emit(f"{held} = {side.text};")
            return Value(held, a.type)
        return Value(f"({condition.text} ? {a.text} : {b.text})", a.type)

    def _list(self, node: s.ListExpression, scope: Scope, expected: Type | None) -> Value:
        """{a, b}: its items, each brought to the type expected of it."""
        types: list[Type | None] = [None] * len(node.items)
        if isinstance(expected, Struct):
            order = {f.name: f.type for f in expected.fields}
            if node.items and isinstance(node.items[0], s.NamedItem):
                named = {item.name: item for item in node.items if isinstance(item, s.NamedItem)}
                if set(named) != set(order):
                    raise CompileError(node.position, f"the fields of {expected} are {', '.join(order)}")
                items = [named[name].value for name in order]
            else:
                items = node.items
            if len(items) != len(order):
                raise CompileError(node.position, f"{expected} has {len(order)} fields, and {len(items)} are given")
            types = list(order.values())
        else:
            items = [item.value if isinstance(item, s.NamedItem) else item for item in node.items]
        values = self.in_order([partial(self._item, item, type_, scope) for item, type_ in zip(items, types, strict=True)])
        shown = expected if isinstance(expected, Struct) else TupleOf(tuple(v.type for v in values))
        return Value("", shown, None, False, values)

    def _item(self, item: s.Expression, type_: Type | None, scope: Scope) -> Value:
        value = self.expression(item, scope, type_)
        return value if type_ is None else self.coerce(value, type_, item.position)

    def place(self, node: s.Expression, scope: Scope) -> Value:
        """The value of something that can be assigned to (but not a slice)."""
        value = self.expression(node, scope)
        if not value.assignable:
            raise CompileError(node.position, "this cannot be assigned to")
        return value

    def table_of(self, node: s.Expression, scope: Scope) -> TableSymbol | None:
        """The table whose apply() an expression calls, None if it is something else."""
        if isinstance(node, s.Call) and isinstance(node.function, s.Member) and node.function.name == "apply":
            base = node.function.base
            if isinstance(base, s.Name):
                symbol = scope.find(base.name)
                if isinstance(symbol, TableSymbol):
                    return symbol
        return None
