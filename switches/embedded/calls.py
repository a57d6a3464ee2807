"""Calls: the methods of headers, stacks, packets and externs, v1model's functions, and P4 functions."""

from __future__ import annotations

from collections.abc import Callable

from switches.embedded import syntax as s
from switches.embedded.errors import CompileError, Position, unsupported
from switches.embedded.scope import (
    ActionSymbol,
    DeclarationSymbol,
    ExternSymbol,
    InstanceSymbol,
    Scope,
    TableSymbol,
    Value,
    VariableSymbol,
)  # fmt: skip
from switches.embedded.types import (
    BOOL,
    VOID,
    ApplyResult,
    Bits,
    EnumType,
    Header,
    Integer,
    PacketType,
    Stack,
    Type,
    as_bits,
    c_type,
)  # fmt: skip
from switches.embedded.wire import Wire

DONE = Value("", VOID)
HASHES = {"crc32": "crc32", "crc16": "crc16", "csum16": "csum16", "identity": "identity", "xor16": "xor16"}
LATER = {
    "digest": "digest", "clone3": "clone3 (use clone_preserving_field_list)", "resubmit": "resubmit with a list (use "
    "resubmit_preserving_field_list)", "recirculate": "recirculate with a list (use recirculate_preserving_field_list)",
}  # fmt: skip


class Calls(Wire):
    """Translates calls. What a call does besides its value is emitted before the statement that holds it."""

    parser_fail: str | None = None  # the label to go to on an error, inside a parser

    def call(self, node: s.Call, scope: Scope) -> Value:
        function = node.function
        if isinstance(function, s.Member):
            return self._method(node, function, scope)
        if not isinstance(function, s.Name):
            raise CompileError(node.position, "this cannot be called")
        symbol = scope.find(function.name)
        if isinstance(symbol, ActionSymbol):
            self.call_action(symbol, node.arguments, scope, node.position)
            return DONE
        if isinstance(symbol, DeclarationSymbol) and isinstance(symbol.node, s.Action):
            self.call_action(self.top_action(symbol), node.arguments, scope, node.position)
            return DONE
        if isinstance(symbol, DeclarationSymbol) and isinstance(symbol.node, s.Function):
            return self._function(symbol, node, scope)
        extern: Callable[[s.Call, Scope], Value] | None = getattr(self, f"_extern_{function.name}", None)
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
        passed, after = [], []
        for parameter, type_, argument in zip(parameters, types, arguments, strict=True):
            if isinstance(argument, s.NamedItem):
                raise unsupported(argument.position, "arguments by name")
            if parameter.direction in ("out", "inout"):
                if as_bits(type_) is None:
                    passed.append(f"&{self.typed_place(argument, type_, scope).text}")
                    continue
                temporary = self.temporary()
                initial = "0"
                if parameter.direction == "inout":
                    initial = self.coerce(self.expression(argument, scope), type_, argument.position).text
                elif isinstance(type_, Bits) and type_.wide:
                    initial = "{{0}}"
                self.emit(f"{c_type(type_)} {temporary} = {initial};")
                passed.append(f"&{temporary}")
                after += self.captured(argument, Value(temporary, type_), scope)
            else:
                passed.append(self.coerce(self.expression(argument, scope, type_), type_, argument.position).text)
        return passed, after

    def captured(self, target: s.Expression, value: Value, scope: Scope) -> list[str]:
        """The lines of an assignment, for later."""

        def write() -> Value:
            self.assign(target, value, scope)
            return DONE

        return self.apart(write)[1]

    def typed_place(self, node: s.Expression, type_: Type, scope: Scope) -> Value:
        value = self.place(node, scope)
        if value.type != type_:
            raise CompileError(node.position, f"this is {value.type}, where {type_} is needed")
        return value

    def assign(self, target: s.Expression, value: Value, scope: Scope) -> None:
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
            if isinstance(symbol, TableSymbol) and name == "apply":
                return self._apply_table(symbol)
            if isinstance(symbol, DeclarationSymbol) and isinstance(symbol.node, (s.Control, s.Parser)) and name == "apply":
                symbol = self.make_instance(symbol, (symbol.node.name,), [], scope, node.position)
            if isinstance(symbol, InstanceSymbol) and name == "apply":
                self.apply_instance(symbol, node.arguments, scope, node.position)
                return DONE
            if isinstance(symbol, ExternSymbol):
                return self._extern_method(symbol, name, node, scope)
            if isinstance(symbol, VariableSymbol) and isinstance(symbol.type, PacketType):
                return self.packet_method(name, node, scope)
        base = self.expression(function.base, scope)
        if isinstance(base.type, Header):
            if name == "isValid":
                return Value(f"{base.text}.valid", BOOL)
            if name in ("setValid", "setInvalid"):
                self.place(function.base, scope)
                change = "header_set_valid" if name == "setValid" else "header_set_invalid"
                return Value(f"{change}(&{base.text}, sizeof {base.text}, &{base.text}.valid, {base.type.width // 8})", VOID)
        if isinstance(base.type, Stack) and name in ("push_front", "pop_front"):
            count = self.constant(node.arguments[0], scope) if len(node.arguments) == 1 else -1
            if not count >= 0:
                raise CompileError(node.position, f"{name} takes one number known when compiling")
            count = min(count, base.type.size)
            self.emit(f"stack_{name}(&{base.text}.at, sizeof {base.text}.at[0], {base.type.size}, {count}, &{base.text}.next_);")
            if name == "push_front":
                for i in range(count):
                    self.emit(f"{base.text}.at[{i}].valid = false;")
            return DONE
        raise CompileError(node.position, f"{base.type} has no method {name}")

    def _apply_table(self, table: TableSymbol) -> Value:
        """What apply() returns; where an action may have executed `exit`, that is looked at before anything else happens."""
        text = f"{self.apply_table(table)}()"
        if not self.has_exit:
            return Value(text, ApplyResult())
        held = self.temporary("applied")
        self.emit(f"const struct outcome {held} = {text};")
        self.emit(f"(void){held};")
        self.check_exit()
        return Value(held, ApplyResult())

    def check_exit(self) -> None:
        raise AssertionError("Statements has it")

    def make_instance(
        self, symbol: DeclarationSymbol, path: tuple[str, ...], arguments: list[s.Expression], scope: Scope, position: Position
    ) -> InstanceSymbol:
        raise AssertionError("Controls has it")

    def packet_method(self, name: str, node: s.Call, scope: Scope) -> Value:
        raise CompileError(node.position, f"a packet has no method {name} here")

    def _extern_method(self, extern: ExternSymbol, name: str, node: s.Call, scope: Scope) -> Value:
        a = node.arguments
        if extern.kind == "register" and name in ("read", "write"):
            if len(a) != 2:
                raise CompileError(node.position, f"register.{name} takes two arguments")
            assert extern.element is not None
            index = self._cell(extern, a[1] if name == "read" else a[0], scope)
            if name == "read":
                self.assign(a[0], Value(index, extern.element), scope)
            else:
                value = self.coerce(self.expression(a[1], scope), extern.element, a[1].position)
                self.emit(f"{index} = {value.text};")
            return DONE
        if extern.kind == "counter" and name == "count":
            if len(a) != 1:
                raise CompileError(node.position, "counter.count takes one argument")
            index_value = self.coerce_index(self.expression(a[0], scope), a[0].position)
            return Value(f"counter_count({extern.c}, {extern.size}, {index_value})", VOID)
        if extern.kind == "direct_counter" and name == "count" and not a:
            return DONE  # simple_switch counts direct counters at the lookup, whatever the action does
        raise CompileError(node.position, f"{extern.kind} has no method {name}")

    def coerce_index(self, value: Value, position: Position) -> str:
        if isinstance(value.type, Integer) and isinstance(value.constant, int):
            return f"{value.constant}u"
        return self.scalar(value, position).text

    def _cell(self, extern: ExternSymbol, index: s.Expression, scope: Scope) -> str:
        """A register's cell in C. Beyond the end lies one spare cell: v1model leaves such accesses undefined."""
        value = self.expression(index, scope)
        if isinstance(value.constant, int):
            if not 0 <= value.constant < extern.size:
                raise CompileError(
                    index.position, f"register {extern.control_name} has {extern.size} cells, no cell {value.constant}"
                )
            place = str(value.constant)
        else:
            place = f"cell_index({self.scalar(value, index.position).text}, {extern.size})"
        bank, _, lane = extern.c.partition(".")
        return f"{bank}[{place}]" + (f".{lane}" if lane else "")

    # --- v1model's functions

    def _take(self, node: s.Call, low: int, high: int | None = None) -> list[s.Expression]:
        n = len(node.arguments)
        if not low <= n <= (low if high is None else high):
            raise CompileError(node.position, f"{node.function.name} takes {low} arguments, and {n} are given")  # type: ignore[union-attr]
        return node.arguments

    def _extern_mark_to_drop(self, node: s.Call, scope: Scope) -> Value:
        for argument in self._take(node, 0, 1):
            self.place(argument, scope)
        return Value("mark_to_drop()", VOID)

    def _number(self, node: s.Expression, scope: Scope) -> str:
        return self.coerce_index(self.expression(node, scope), node.position)

    def _extern_random(self, node: s.Call, scope: Scope) -> Value:
        result, low, high = self._take(node, 3)
        target = self.scalar(self.place_or_slice(result, scope), result.position).type
        assert isinstance(target, Bits)
        if target.wide:
            raise unsupported(node.position, f"random into {target}")
        drawn = self.temporary("drawn")
        a = self.coerce(self.expression(low, scope), target, low.position)
        b = self.coerce(self.expression(high, scope), target, high.position)
        self.emit(f"const {target.compute} {drawn} = ({target.compute})random_between({a.text}, {b.text});")
        self.assign(result, Value(drawn, target), scope)
        return DONE

    def place_or_slice(self, node: s.Expression, scope: Scope) -> Value:
        return self.expression(node, scope) if isinstance(node, s.Slice) else self.place(node, scope)

    def _algorithm(self, node: s.Expression, scope: Scope) -> str:
        value = self.expression(node, scope)
        if not isinstance(value.type, EnumType) or value.type.name != "HashAlgorithm" or value.constant is None:
            raise CompileError(node.position, "a HashAlgorithm is needed here")
        name = value.type.members[int(value.constant)]
        if name not in HASHES:
            raise unsupported(node.position, f"HashAlgorithm.{name}")
        return f"hash_{HASHES[name]}"

    def _extern_hash(self, node: s.Call, scope: Scope) -> Value:
        result, algorithm, base, data, most = self._take(node, 5)
        function = self._algorithm(algorithm, scope)
        target = self.scalar(self.place_or_slice(result, scope), result.position).type
        assert isinstance(target, Bits)
        with self.indented("{"):
            buffer, size = self.pack([self.expression(data, scope)], data.position)
            text = f"hash_within({function}({buffer}, {size}), {self._number(base, scope)}, {self._number(most, scope)})"
            drawn = self.temporary("hash")
            self.emit(f"const uint64_t {drawn} = {text};")
            wrapped = f"({target.compute})({drawn} & {hex(target.mask)}u)" if target.width < 64 else drawn
            self.assign(result, Value(wrapped, target), scope)
        return DONE

    def _checksum(self, node: s.Call, scope: Scope, update: bool, payload: bool) -> Value:
        condition, data, checksum, algorithm = self._take(node, 4)
        function = self._algorithm(algorithm, scope)
        value = self.scalar(self.place(checksum, scope) if update else self.expression(checksum, scope), checksum.position)
        assert isinstance(value.type, Bits)
        with self.indented(f"if ({self.condition(condition, scope).text}) {{"):
            buffer, size = self.pack([self.expression(data, scope)], data.position, " + MAX_PACKET" if payload else "")
            length = str(size)
            if payload:
                length = f"{size} + payload_length"
                self.emit(f"memcpy({buffer} + {size}, payload, payload_length);")
            cast = f"({value.type.compute})({function}({buffer}, {length}) & {hex(value.type.mask)}u)"
            if update:
                self.assign(checksum, Value(cast, value.type), scope)
            else:
                self.emit(f"if ({cast} != {value.text}) phv.standard.checksum_error = 1;")
        return DONE

    def _extern_verify_checksum(self, node: s.Call, scope: Scope) -> Value:
        return self._checksum(node, scope, update=False, payload=False)

    def _extern_update_checksum(self, node: s.Call, scope: Scope) -> Value:
        return self._checksum(node, scope, update=True, payload=False)

    def _extern_verify_checksum_with_payload(self, node: s.Call, scope: Scope) -> Value:
        return self._checksum(node, scope, update=False, payload=True)

    def _extern_update_checksum_with_payload(self, node: s.Call, scope: Scope) -> Value:
        return self._checksum(node, scope, update=True, payload=True)

    def _field_list(self, node: s.Expression, scope: Scope) -> int:
        return self.constant(node, scope)

    def _clone(self, node: s.Call, scope: Scope, list_node: s.Expression | None) -> Value:
        kind = self.expression(node.arguments[0], scope)
        if not isinstance(kind.type, EnumType) or kind.type.name != "CloneType":
            raise CompileError(node.position, "a CloneType is needed here")
        field_list = -1 if list_node is None else self._field_list(list_node, scope)
        session = self._number(node.arguments[1], scope)
        return Value(f"intents.clone = (struct clone_intent){{true, {session}, {field_list}}}", VOID)

    def _extern_clone(self, node: s.Call, scope: Scope) -> Value:
        self._take(node, 2)
        return self._clone(node, scope, None)

    def _extern_clone_preserving_field_list(self, node: s.Call, scope: Scope) -> Value:
        return self._clone(node, scope, self._take(node, 3)[2])

    def _extern_resubmit_preserving_field_list(self, node: s.Call, scope: Scope) -> Value:
        return Value(f"intents.resubmit = (struct again_intent){{true, {self._field_list(self._take(node, 1)[0], scope)}}}", VOID)

    def _extern_recirculate_preserving_field_list(self, node: s.Call, scope: Scope) -> Value:
        return Value(
            f"intents.recirculate = (struct again_intent){{true, {self._field_list(self._take(node, 1)[0], scope)}}}", VOID
        )

    def _extern_truncate(self, node: s.Call, scope: Scope) -> Value:
        return Value(f"intents.truncate_to = {self._number(self._take(node, 1)[0], scope)}", VOID)

    def _extern_assert(self, node: s.Call, scope: Scope) -> Value:
        condition = self.condition(self._take(node, 1)[0], scope)
        return Value(f'if (!{condition.text}) assertion_failed("{node.position}")', VOID)

    _extern_assume = _extern_assert

    def _extern_log_msg(self, node: s.Call, scope: Scope) -> Value:
        arguments = self._take(node, 1, 2)
        form = arguments[0]
        if not isinstance(form, s.String):
            raise CompileError(node.position, "log_msg takes a string")
        values = self.expression(arguments[1], scope).items or [] if len(arguments) == 2 else []
        pieces = form.value.replace("%", "%%").split("{}")
        if len(pieces) != len(values) + 1:
            raise CompileError(node.position, f"the message has {len(pieces) - 1} places, and {len(values)} values are given")
        for value in values:
            if as_bits(value.type) is None or (as_bits(value.type) or Bits(1)).wide:
                raise unsupported(node.position, f"log_msg of {value.type}")
        text = "%llu".join(pieces)
        shown = "".join(f", (unsigned long long){v.text}" for v in values)
        return Value(f'log_message("{text}"{shown})', VOID)
