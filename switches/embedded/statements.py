"""Statements: assignment, if, switch, return, exit, calls and local variables."""

from __future__ import annotations

from switches.embedded import syntax as s
from switches.embedded.errors import CompileError, Position, unsupported
from switches.embedded.externs import Externs
from switches.embedded.scope import Scope, TableSymbol, Target, Value, VariableSymbol
from switches.embedded.types import (
    STRING,
    VOID,
    ApplyResult,
    Bits,
    Header,
    Integer,
    PacketType,
    Struct,
    TupleOf,
    Type,
    as_bits,
    c_name,
    literal,
)
from switches.embedded.walk import walk


class Statements(Externs):
    """Translates statements to lines of the C function being written."""

    result: Type = VOID  # of the function being written
    leave = "return;"  # what `return` is there, when it has no value

    def block(self, node: s.Block, scope: Scope) -> None:
        inner = Scope(scope)
        for statement in node.statements:
            self.statement(statement, inner)

    def statement(self, node: s.Statement, scope: Scope) -> None:
        if isinstance(node, s.Block):
            with self.indented("{"):
                self.block(node, scope)
        elif isinstance(node, s.Assignment):
            self._assignment(node, scope)
        elif isinstance(node, s.CallStatement):
            value = self.call(node.call, scope)
            if value.text and not isinstance(value.type, ApplyResult):  # a table is applied already
                self.emit(value.text + ";")
            if not isinstance(node.call.function, s.Member):
                self.check_exit()
        elif isinstance(node, s.If):
            self._if(node, scope)
        elif isinstance(node, s.Switch):
            self._switch(node, scope)
        elif isinstance(node, s.Return):
            self._return(node, scope)
        elif isinstance(node, s.Exit):
            self.emit("exited = true;")
            self._leave_at_once()
        elif isinstance(node, s.Variable):
            self._variable(node, scope)
        elif isinstance(node, s.Constant):
            self.declare_constant(node, scope)
        else:
            raise CompileError(node.position, "a statement is needed here")

    def check_exit(self) -> None:
        """After something that may have executed `exit`: leave as well."""
        if self.has_exit:
            with self.indented("if (exited) {"):
                self._leave_at_once()

    def _leave_at_once(self) -> None:
        self.emit(self.leave if self.result == VOID else "return 0;")

    def _assignment(self, node: s.Assignment, scope: Scope) -> None:
        target = self.target(node.target, scope, freeze=_contains_call(node.value))
        self.store(target, self.expression(node.value, scope, target.type), node.value.position)

    def assign(self, target: s.Expression, value: Value, scope: Scope) -> None:
        """Emit an assignment to an expression that has a place."""
        self.store(self.target(target, scope), value, target.position)

    def store(self, target: Target, value: Value, position: Position) -> None:
        """Emit an assignment; `position` is the value's."""
        if target.high is not None:
            self._store_slice(target, value, position)
        elif value.items is not None:
            self._store_items(target.place, value, position)
        else:
            self.emit(f"{target.place.text} = {self.coerce(value, target.type, position).text};")

    def _store_slice(self, target: Target, value: Value, position: Position) -> None:
        place, piece, low = target.place, target.type, target.low
        assert isinstance(place.type, Bits) and isinstance(piece, Bits)
        value = self.coerce(value, piece, position)
        plain = Bits(place.type.width)
        kept = literal(plain.mask & ~(piece.mask << low), plain)
        shifted = f"(({plain.compute}){value.text} << {low})" if low else value.text
        joined = f"({place.text} & {kept}) | {shifted}"
        if place.type.signed:
            bits = 32 if plain.width <= 32 else 64
            joined = f"sign_extend{bits}({joined}, {plain.width})"
        self.emit(f"{place.text} = {joined};")

    def _store_items(self, place: Value, value: Value, position: Position) -> None:
        """A list to a struct or header, field by field; all are read before any is written."""
        if not isinstance(place.type, Struct) or len(place.type.fields) != len(value.items or []):
            raise CompileError(position, f"this list does not fit {place.type}")
        with self.indented("{"):
            items = [self.coerce(item, f.type, position) for f, item in zip(place.type.fields, value.items or [], strict=True)]
            held = [self.held(item) for item in items]
            if isinstance(place.type, Header):
                self.emit(f"header_set_valid(&{place.text}, sizeof {place.text}, &{place.text}.valid, {place.type.width // 8});")
            for f, item in zip(place.type.fields, held, strict=True):
                inner = Value(f"{place.text}.{c_name(f.name)}", f.type)
                self.store(Target(inner, f.type), item, position)

    def _if(self, node: s.If, scope: Scope) -> None:
        condition = self.condition(node.condition, scope).text
        condition = condition[1:-1] if _wrapped(condition) else condition
        before = self.emitted
        with self.indented(f"if ({condition}) {{"):
            self._body(node.then, scope)
        then, self.emitted = self.emitted, before
        if node.otherwise is not None:
            self.lines[-1] += " else {"
            self.depth += 1
            self._body(node.otherwise, scope)
            self.depth -= 1
            self.emit("}")
        self.emitted = max(then, self.emitted)

    def _body(self, node: s.Statement, scope: Scope) -> None:
        if isinstance(node, s.Block):
            self.block(node, scope)
        else:
            self.statement(node, Scope(scope))

    def _switch(self, node: s.Switch, scope: Scope) -> None:
        if self.in_action:
            raise CompileError(node.position, "switch cannot stand in an action (simple_switch has none there)")
        for case in node.cases[:-1]:
            if isinstance(case.label, s.DontCare):
                self.warn(case.position, "a label follows the default label")
        table = None
        if isinstance(node.selector, s.Member) and node.selector.name == "action_run":
            table = self.table_of(node.selector.base, scope)
        if table is not None:
            ran = self.temporary("ran")
            assert isinstance(node.selector, s.Member)
            self.emit(f"const unsigned {ran} = {self.expression(node.selector.base, scope).text}.action;")
            selector, labels = ran, [self._action_label(case.label, table) for case in node.cases]
        else:
            value = self.expression(node.selector, scope)
            if as_bits(value.type) is None or isinstance(value.type, Integer) or (as_bits(value.type) or Bits(1)).wide:
                raise unsupported(node.position, f"switch over {value.type}")
            selector, labels = value.text, [self._value_label(case.label, value.type, scope) for case in node.cases]
        if len(set(labels)) != len(labels):
            raise CompileError(node.position, "a switch label occurs twice")
        with self.indented(f"switch ({selector}) {{"):
            for label, case in zip(labels, node.cases, strict=True):
                if case.body is None:
                    self.emit(label)
                    continue
                with self.indented(label + " {"):
                    self.block(case.body, scope)
                self.emit("break;")
            if node.cases and node.cases[-1].body is None:
                self.emit("break;")

    def _action_label(self, label: s.Expression, table: TableSymbol) -> str:
        if isinstance(label, s.DontCare):
            return "default:"
        names = [a.node.name for a in table.actions]
        if not isinstance(label, s.Name) or label.name not in names:
            raise CompileError(label.position, f"this is no action of table {table.node.name}")
        return f"case {names.index(label.name)}:"

    def _value_label(self, label: s.Expression, type_: Type, scope: Scope) -> str:
        if isinstance(label, s.DontCare):
            return "default:"
        value = self.coerce(self.expression(label, scope), type_, label.position)
        if value.constant is None:
            raise CompileError(label.position, "a label must be known when compiling")
        return f"case {value.text}:"

    def _return(self, node: s.Return, scope: Scope) -> None:
        if self.result == VOID:
            if node.value is not None:
                raise CompileError(node.position, "nothing can be returned here")
            self.emit(self.leave)
            return
        if node.value is None:
            raise CompileError(node.position, f"a value of {self.result} must be returned")
        self.emit(f"return {self.coerce(self.expression(node.value, scope), self.result, node.position).text};")

    def _variable(self, node: s.Variable, scope: Scope) -> None:
        type_ = self.resolve(node.type, scope)
        if isinstance(type_, (Integer, TupleOf, PacketType)) or type_ in (VOID, STRING):
            raise unsupported(node.position, f"a variable of type {type_}")
        if isinstance(type_, Bits) and type_.wide:
            self.wide(type_)
        initial = self.expression(node.initial, scope, type_) if node.initial is not None else None
        c = self.declare_local(node.name, type_)
        symbol = VariableSymbol(c, type_)
        scope.declare(node.name, symbol, node.position)
        if initial is not None:
            assert node.initial is not None
            self.store(Target(Value(c, type_), type_), initial, node.initial.position)


def _contains_call(node: s.Expression) -> bool:
    """True if an expression calls something, which may change what its other parts read."""
    return any(isinstance(inner, s.Call) for inner in walk(node))


def _wrapped(text: str) -> bool:
    """True if one pair of brackets encloses all of a C expression."""
    depth = 0
    for i, ch in enumerate(text):
        depth += (ch == "(") - (ch == ")")
        if depth == 0:
            return text.startswith("(") and i == len(text) - 1
    return False
