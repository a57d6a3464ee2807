"""Calls: the methods of headers, stacks, packets and externs, v1model's functions, and P4 functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from switches.embedded import syntax as s
from switches.embedded.arithmetic import slice_of
from switches.embedded.errors import CompileError, Position, unsupported
from switches.embedded.scope import (
    ActionSymbol,
    DeclarationSymbol,
    ExternSymbol,
    InstanceSymbol,
    Scope,
    TableSymbol,
    Target,
    Value,
    VariableSymbol,
)  # fmt: skip
from switches.embedded.types import (
    BOOL,
    VOID,
    ApplyResult,
    Bits,
    Header,
    PacketType,
    Stack,
    Type,
    as_bits,
    c_type,
)  # fmt: skip
from switches.embedded.wire import Wire

DONE = Value("", VOID)
LATER = {
    "digest": "digest", "clone3": "clone3 (use clone_preserving_field_list)", "resubmit": "resubmit with a list (use "
    "resubmit_preserving_field_list)", "recirculate": "recirculate with a list (use recirculate_preserving_field_list)",
}  # fmt: skip


class Calls(Wire):
    """Translates calls. What a call does besides its value is emitted before the statement that holds it."""

    in_action = False

    def call(self, node: s.Call, scope: Scope) -> Value:
        function = node.function
        if isinstance(function, s.Member):
            return self._method(node, function, scope)
        if not isinstance(function, s.Name):
            raise CompileError(node.position, "this cannot be called")
        symbol = scope.find(function.name)
        extern: Callable[[s.Call, Scope], Value] | None = getattr(self, f"_extern_{function.name}", None)
        own = getattr(symbol, "node", None)
        if extern is not None and isinstance(own, (s.Action, s.Function)) and len(own.parameters) != len(node.arguments):
            symbol = None  # an overload: the number of arguments chooses
        is_action = symbol is not None and isinstance(own, s.Action)
        if is_action and self.parser_fail is not None:
            raise CompileError(node.position, f"action {function.name} cannot be called in a parser")
        if isinstance(symbol, ActionSymbol):
            self.call_action(symbol, node.arguments, scope, node.position)
            return DONE
        if isinstance(symbol, DeclarationSymbol) and isinstance(symbol.node, s.Action):
            self.call_action(self.top_action(symbol), node.arguments, scope, node.position)
            return DONE
        if isinstance(symbol, DeclarationSymbol) and isinstance(symbol.node, s.Function):
            return self._function(symbol, node, scope)
        if extern is not None and symbol is None:
            return extern(node, scope)
        if function.name in LATER:
            raise unsupported(node.position, LATER[function.name])
        raise CompileError(
            node.position, f"{function.name} is not declared" if symbol is None else f"{function.name} cannot be called"
        )

    # --- arguments

    def bind(
        self, parameters: list[s.Parameter], types: list[Type], arguments: list[s.Expression], scope: Scope, position: Position
    ) -> tuple[list[str], list[str]]:
        """Arguments by copy-in, copy-out (section 6.8): C arguments, and the C statements that copy results back.

        Scalars for out and inout go through temporaries; headers, structs and stacks go by address.
        """
        if len(parameters) != len(arguments):
            raise CompileError(position, f"{len(parameters)} arguments are needed, and {len(arguments)} are given")
        after: list[str] = []
        evaluations = []
        for parameter, type_, argument in zip(parameters, types, arguments, strict=True):
            if isinstance(argument, s.NamedItem):
                raise unsupported(argument.position, "arguments by name")
            written = parameter.direction in ("out", "inout")
            evaluations.append(partial(self._written if written else self._read, parameter, type_, argument, scope, after))
        return [value.text for value in self.in_order(evaluations)], after

    def _read(self, parameter: s.Parameter, type_: Type, argument: s.Expression, scope: Scope, after: list[str]) -> Value:
        value = self.coerce(self.expression(argument, scope, type_), type_, argument.position)
        if value.items is None:
            return value
        place = Value(self.declare_local("list", type_), type_)
        self.store(Target(place, type_), value, argument.position)
        return place

    def _written(self, parameter: s.Parameter, type_: Type, argument: s.Expression, scope: Scope, after: list[str]) -> Value:
        """The address that an out or inout parameter gets; adds to `after` what copies the result back."""
        target = self.target(argument, scope, freeze=True)
        if target.type != type_:
            raise CompileError(argument.position, f"this is {target.type}, where {type_} is needed")
        if as_bits(type_) is None:
            return Value(f"&{target.place.text}", VOID)
        temporary = self.temporary()
        initial = "0"
        if parameter.direction == "inout":
            initial = self.read_target(target, argument.position).text
        elif isinstance(type_, Bits) and type_.wide:
            initial = "{{0}}"
        self.emit(f"{c_type(type_)} {temporary} = {initial};")

        def write() -> Value:
            self.store(target, Value(temporary, type_), argument.position)
            return DONE

        after += self.apart(write)[1]
        return Value(f"&{temporary}", VOID)

    def read_target(self, target: Target, position: Position) -> Value:
        """The value that a target holds now."""
        return target.place if target.high is None else slice_of(target.place, target.high, target.low, position)

    def assign(self, target: s.Expression, value: Value, scope: Scope) -> None:
        raise AssertionError("Statements has it")

    def store(self, target: Target, value: Value, position: Position) -> None:
        raise AssertionError("Statements has it")

    def call_action(self, action: ActionSymbol, arguments: list[s.Expression], scope: Scope, position: Position) -> None:
        raise AssertionError("Controls has it")

    def top_action(self, symbol: DeclarationSymbol) -> ActionSymbol:
        raise AssertionError("Controls has it")

    def apply_table(self, table: TableSymbol) -> str:
        raise AssertionError("Tables has it")

    def apply_instance(self, instance: InstanceSymbol, arguments: list[s.Expression], scope: Scope, position: Position) -> None:
        raise AssertionError("Controls has it")

    def function_name(self, symbol: DeclarationSymbol) -> tuple[str, list[Type], Type]:
        raise AssertionError("Controls has it")

    def _function(self, symbol: DeclarationSymbol, node: s.Call, scope: Scope) -> Value:
        c, types, result = self.function_name(symbol)
        passed, after = self.bind(symbol.node.parameters, types, node.arguments, scope, node.position)
        text = f"{c}({', '.join(passed)})"
        if not after:
            return Value(text, result)
        if result == VOID:
            self.emit(text + ";")
            kept = ""
        else:
            kept = self.temporary()
            self.emit(f"const {c_type(result)} {kept} = {text};")
        for line in after:
            self.emit(line)
        return Value(kept, result)

    # --- methods

    def _method(self, node: s.Call, function: s.Member, scope: Scope) -> Value:
        name = function.name
        if isinstance(function.base, s.Name):
            symbol = scope.find(function.base.name)
            if name == "apply" and self.in_action:
                raise CompileError(node.position, f"{function.base.name} cannot be applied in an action")
            if isinstance(symbol, TableSymbol) and name == "apply":
                if node.arguments:
                    raise CompileError(node.position, f"apply() of table {symbol.node.name} takes no arguments")
                return self._apply_table(symbol)
            if isinstance(symbol, DeclarationSymbol) and isinstance(symbol.node, (s.Control, s.Parser)) and name == "apply":
                symbol = self.make_instance(symbol, (symbol.node.name,), [], scope, node.position)
            if isinstance(symbol, InstanceSymbol) and name == "apply":
                self.apply_instance(symbol, node.arguments, scope, node.position)
                return DONE
            if isinstance(symbol, ExternSymbol):
                return self.extern_method(symbol, name, node, scope)
            if isinstance(symbol, VariableSymbol) and isinstance(symbol.type, PacketType):
                return self.packet_method(name, node, scope)
        base = self.expression(function.base, scope)
        if isinstance(base.type, Header):
            if name in ("isValid", "setValid", "setInvalid") and node.arguments:
                raise CompileError(node.position, f"{name} takes no arguments")
            if name == "isValid":
                return Value(f"{base.text}.valid", BOOL)
            if name in ("setValid", "setInvalid"):
                self.place(function.base, scope)
                change = "header_set_valid" if name == "setValid" else "header_set_invalid"
                return Value(f"{change}(&{base.text}, sizeof {base.text}, &{base.text}.valid, {base.type.width // 8})", VOID)
        if isinstance(base.type, Stack) and name in ("push_front", "pop_front"):
            if self.parser_fail is not None:
                raise CompileError(node.position, f"{name} cannot be used in a parser")
            self.place(function.base, scope)
            count = self.constant(node.arguments[0], scope) if len(node.arguments) == 1 else -1
            if not count > 0:
                raise CompileError(node.position, f"{name} takes one positive number, known when compiling")
            count = min(count, base.type.size)
            self.emit(f"stack_{name}(&{base.text}.at, sizeof {base.text}.at[0], {base.type.size}, {count}, &{base.text}.next_);")
            if name == "push_front":
                for i in range(count):
                    self.emit(f"{base.text}.at[{i}].valid = false;")
            return DONE
        raise CompileError(node.position, f"{base.type} has no method {name}")

    def _apply_table(self, table: TableSymbol) -> Value:
        """What apply() returns; where an action may have executed `exit`, that is looked at before anything else happens."""
        held = self.temporary("applied")
        self.emit(f"const struct outcome {held} = {self.apply_table(table)}();")
        self.emit(f"(void){held};")
        self.check_exit()
        return Value(held, ApplyResult())

    def check_exit(self) -> None:
        raise AssertionError("Statements has it")

    def make_instance(
        self, symbol: DeclarationSymbol, path: tuple[str, ...], arguments: list[s.Expression], scope: Scope, position: Position
    ) -> InstanceSymbol:
        raise AssertionError("Controls has it")

    def extern_method(self, extern: ExternSymbol, name: str, node: s.Call, scope: Scope) -> Value:
        raise AssertionError("Externs has it")

    def packet_method(self, name: str, node: s.Call, scope: Scope) -> Value:
        raise CompileError(node.position, f"a packet has no method {name} here")
