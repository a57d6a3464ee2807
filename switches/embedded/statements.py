"""Statements: assignment, if, switch, return, exit, calls and local variables."""

from __future__ import annotations

from switches.embedded import syntax as s
from switches.embedded.calls import Calls
from switches.embedded.errors import CompileError, unsupported
from switches.embedded.scope import Scope, TableSymbol, Value, VariableSymbol
from switches.embedded.types import VOID, ApplyResult, Bits, Header, Integer, Struct, TupleOf, Type, as_bits, c_name, literal


class Statements(Calls):
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
            if value.text and not (isinstance(value.type, ApplyResult) and self.has_exit):  # then it is applied already
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
        if isinstance(node.target, s.Slice):
            target_type: Type | None = None
        else:
            target_type = self.place(node.target, scope).type
        self.assign(node.target, self.expression(node.value, scope, target_type), scope)

    def assign(self, target: s.Expression, value: Value, scope: Scope) -> None:
        """Emit an assignment to a place or to a slice of one."""
        if isinstance(target, s.Slice):
            self._assign_slice(target, value, scope)
            return
        place = self.place(target, scope)
        if value.items is not None:
            self._assign_items(place, value, target)
            return
        value = self.coerce(value, place.type, target.position)
        self.emit(f"{place.text} = {value.text};")

    def _assign_slice(self, target: s.Slice, value: Value, scope: Scope) -> None:
        place = self.place(target.base, scope)
        high, low = self.constant(target.high, scope), self.constant(target.low, scope)
        if not isinstance(place.type, Bits) or place.type.wide:
            raise unsupported(target.position, f"an assignment to a slice of {place.type}")
        if not 0 <= low <= high < place.type.width:
            raise CompileError(target.position, f"[{high}:{low}] is not within {place.type}")
        piece = Bits(high - low + 1)
        value = self.coerce(value, piece, target.position)
        plain = Bits(place.type.width)
        kept = literal(plain.mask & ~(piece.mask << low), plain)
        shifted = f"(({plain.compute}){value.text} << {low})" if low else value.text
        joined = f"({place.text} & {kept}) | {shifted}"
        if place.type.signed:
            bits = 32 if plain.width <= 32 else 64
            joined = f"sign_extend{bits}({joined}, {plain.width})"
        self.emit(f"{place.text} = {joined};")

    def _assign_items(self, place: Value, value: Value, target: s.Expression) -> None:
        """A list to a struct or header, field by field; all are read before any is written."""
        if not isinstance(place.type, Struct) or len(place.type.fields) != len(value.items or []):
            raise CompileError(target.position, f"this list does not fit {place.type}")
        with self.indented("{"):
            held = []
            for f, item in zip(place.type.fields, value.items or [], strict=True):
                coerced = self.coerce(item, f.type, target.position)
                if coerced.items is not None:
                    raise unsupported(target.position, "a list within a list, assigned")
                name = self.temporary()
                self.emit(f"const __typeof__({place.text}.{c_name(f.name)}) {name} = {coerced.text};")
                held.append((f.name, name))
            if isinstance(place.type, Header):
                self.emit(f"header_set_valid(&{place.text}, sizeof {place.text}, &{place.text}.valid, {place.type.width // 8});")
            for field, name in held:
                self.emit(f"{place.text}.{c_name(field)} = {name};")

    def _if(self, node: s.If, scope: Scope) -> None:
        condition = self.condition(node.condition, scope).text
        condition = condition[1:-1] if _wrapped(condition) else condition
        with self.indented(f"if ({condition}) {{"):
            self._body(node.then, scope)
        if node.otherwise is not None:
            self.lines[-1] += " else {"
            self.depth += 1
            self._body(node.otherwise, scope)
            self.depth -= 1
            self.emit("}")

    def _body(self, node: s.Statement, scope: Scope) -> None:
        if isinstance(node, s.Block):
            self.block(node, scope)
        else:
            self.statement(node, Scope(scope))

    def _switch(self, node: s.Switch, scope: Scope) -> None:
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
        if isinstance(type_, (Integer, TupleOf)) or type_ == VOID:
            raise unsupported(node.position, f"a variable of type {type_}")
        if isinstance(type_, Bits) and type_.wide:
            self.wide(type_)
        initial = self.expression(node.initial, scope, type_) if node.initial is not None else None
        c = self.declare_local(node.name, type_)
        symbol = VariableSymbol(c, type_)
        scope.declare(node.name, symbol, node.position)
        if initial is not None:
            self.assign(s.Name(node.position, node.name), initial, scope)


def _wrapped(text: str) -> bool:
    """True if one pair of brackets encloses all of a C expression."""
    depth = 0
    for i, ch in enumerate(text):
        depth += (ch == "(") - (ch == ")")
        if depth == 0:
            return text.startswith("(") and i == len(text) - 1
    return False
