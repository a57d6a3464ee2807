"""v1model's externs: registers, counters, and its functions, with the types that v1model.p4 declares for them."""

from __future__ import annotations

from functools import partial

from switches.embedded import syntax as s
from switches.embedded.arithmetic import number
from switches.embedded.calls import DONE, Calls
from switches.embedded.errors import CompileError, unsupported
from switches.embedded.scope import ConstantSymbol, ExternSymbol, Scope, Value
from switches.embedded.text import c_string
from switches.embedded.types import VOID, Bits, EnumType, Integer, Struct, Type, as_bits

HASHES = {"crc32": "crc32", "crc16": "crc16", "csum16": "csum16", "identity": "identity", "xor16": "xor16"}
INDEX = Bits(32)  # v1model's bit<32>
GENERIC_INDEX = 20200408  # the V1MODEL_VERSION from which the index of a register or counter has a type of its own


class Externs(Calls):
    """Translates calls of v1model's externs."""

    def extern_method(self, extern: ExternSymbol, name: str, node: s.Call, scope: Scope) -> Value:
        if extern.kind == "register" and name == "read":
            result, index = self._take(node, 2)
            assert extern.element is not None
            target = self.target(result, scope, freeze=True)
            self.store(target, Value(self._cell(extern, self._index_of(extern, index, scope)), extern.element), result.position)
            return DONE
        if extern.kind == "register" and name == "write":
            index, written = self._take(node, 2)
            assert extern.element is not None
            place, value = self.in_order(
                [partial(self._index_of, extern, index, scope), partial(self._item, written, extern.element, scope)]
            )
            self.emit(f"{self._cell(extern, place)} = {value.text};")
            return DONE
        if extern.kind == "counter" and name == "count":
            place = self._index_of(extern, self._take(node, 1)[0], scope)
            return Value(f"counter_count({extern.c}, {extern.size}, {place.text})", VOID)
        if extern.kind == "direct_counter" and name == "count":
            self._take(node, 0)
            return DONE  # simple_switch counts direct counters at the lookup, whatever the action does
        raise CompileError(node.position, f"{extern.kind} has no method {name}")

    def _index_of(self, extern: ExternSymbol, node: s.Expression, scope: Scope) -> Value:
        """The index of a register's or counter's cell, of the type that its declaration gives it."""
        version = self.top.find("__v1model_version")
        generic = isinstance(version, ConstantSymbol) and int(version.value.constant or 0) >= GENERIC_INDEX
        value = self.expression(node, scope)
        type_ = extern.index if generic and extern.index is not None else Bits(32)
        value = self.coerce(value, type_, node.position)
        if extern.kind == "register" and isinstance(value.constant, int) and not 0 <= value.constant < extern.size:
            raise CompileError(node.position, f"register {extern.control_name} has {extern.size} cells, no cell {value.constant}")
        return self.scalar(value, node.position)

    def _cell(self, extern: ExternSymbol, index: Value) -> str:
        """A register's cell in C. Beyond the end lies one spare cell: v1model leaves such accesses undefined."""
        known = isinstance(index.constant, int)
        place = str(index.constant) if known else f"cell_index({index.text}, {extern.size})"
        bank, _, lane = extern.c.partition(".")
        return f"{bank}[{place}]" + (f".{lane}" if lane else "")

    # --- functions

    def _take(self, node: s.Call, low: int, high: int | None = None) -> list[s.Expression]:
        n = len(node.arguments)
        if not low <= n <= (low if high is None else high):
            what = f"{low}" if high is None else f"{low} or {high}"
            raise CompileError(node.position, f"{node.function.name} takes {what} arguments, and {n} are given")  # type: ignore[union-attr]
        for argument in node.arguments:
            if isinstance(argument, s.NamedItem):
                raise unsupported(argument.position, "arguments by name")
        return node.arguments

    def _extern_mark_to_drop(self, node: s.Call, scope: Scope) -> Value:
        (argument,) = self._take(node, 1)
        place = self.place(argument, scope)
        if not isinstance(place.type, Struct) or place.type.name != "standard_metadata_t":
            raise CompileError(argument.position, f"this is {place.type}, where standard_metadata_t is needed")
        return Value("mark_to_drop()", VOID)

    def _number(self, node: s.Expression, scope: Scope, type_: Type = INDEX) -> Value:
        return self.coerce(self.expression(node, scope), type_, node.position)

    def _extern_random(self, node: s.Call, scope: Scope) -> Value:
        result, low, high = self._take(node, 3)
        target = self.target(result, scope, freeze=True)
        bits = target.type
        if not isinstance(bits, Bits):
            raise CompileError(result.position, f"this is {bits}, where bit<W> is needed")
        if bits.wide:
            raise unsupported(node.position, f"random into {bits}")
        a, b = self.in_order([partial(self._item, bound, bits, scope) for bound in (low, high)])
        drawn = self.temporary("drawn")
        self.emit(f"const {bits.compute} {drawn} = ({bits.compute})random_between({a.text}, {b.text});")
        self.store(target, Value(drawn, bits), result.position)
        return DONE

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
        target = self.target(result, scope, freeze=True)
        bits = target.type
        if not isinstance(bits, Bits):
            raise CompileError(result.position, f"this is {bits}, where bit<W> is needed")
        with self.indented("{"):
            low, list_, high = self.in_order(
                [partial(self._bound, base, scope), partial(self.expression, data, scope), partial(self._bound, most, scope)]
            )
            buffer, size = self.pack([list_], data.position)
            drawn = self.temporary("hash")
            self.emit(f"const uint64_t {drawn} = hash_within({function}({buffer}, {size}), {low.text}, {high.text});")
            wrapped = f"({bits.compute})({drawn} & {hex(bits.mask)}u)" if bits.width < 64 else drawn
            self.store(target, Value(wrapped, bits), result.position)
        return DONE

    def _bound(self, node: s.Expression, scope: Scope) -> Value:
        """The base or the maximum of a hash: bit<W>, or a number without a width."""
        value = self.expression(node, scope)
        if isinstance(value.type, Integer) and isinstance(value.constant, int):
            if not 0 <= value.constant < 1 << 64:
                raise CompileError(node.position, f"{value.constant} does not fit in 64 bits")
            return number(value.constant, Bits(64))
        return self.scalar(value, node.position)

    def _checksum(self, node: s.Call, scope: Scope, update: bool, payload: bool) -> Value:
        condition, data, checksum, algorithm = self._take(node, 4)
        self._only_in("compute checksum" if update else "verify checksum", node)
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

    def _only_in(self, role: str, node: s.Call) -> None:
        if self.role not in (role, ""):  # it is unknown in a control that nothing applies
            name = node.function.name  # type: ignore[union-attr]
            raise CompileError(node.position, f"{name} belongs in the {role} block, and this is the {self.role} block")

    def _field_list(self, node: s.Expression, scope: Scope) -> int:
        value = self._number(node, scope, Bits(8))
        if not isinstance(value.constant, int):
            raise CompileError(node.position, "the number of a field list must be known when compiling")
        return value.constant

    def _clone(self, node: s.Call, scope: Scope, list_node: s.Expression | None) -> Value:
        kind = self.expression(node.arguments[0], scope)
        if not isinstance(kind.type, EnumType) or kind.type.name != "CloneType" or not isinstance(kind.constant, int):
            raise CompileError(node.position, "a CloneType is needed here")
        self._only_in({"I2E": "ingress", "E2E": "egress"}[kind.type.members[kind.constant]], node)
        field_list = -1 if list_node is None else self._field_list(list_node, scope)
        session = self._number(node.arguments[1], scope).text
        return Value(f"intents.clone = (struct clone_intent){{true, {session}, {field_list}}}", VOID)

    def _extern_clone(self, node: s.Call, scope: Scope) -> Value:
        self._take(node, 2)
        return self._clone(node, scope, None)

    def _extern_clone_preserving_field_list(self, node: s.Call, scope: Scope) -> Value:
        return self._clone(node, scope, self._take(node, 3)[2])

    def _extern_resubmit_preserving_field_list(self, node: s.Call, scope: Scope) -> Value:
        self._only_in("ingress", node)
        return Value(f"intents.resubmit = (struct again_intent){{true, {self._field_list(self._take(node, 1)[0], scope)}}}", VOID)

    def _extern_recirculate_preserving_field_list(self, node: s.Call, scope: Scope) -> Value:
        self._only_in("egress", node)
        return Value(
            f"intents.recirculate = (struct again_intent){{true, {self._field_list(self._take(node, 1)[0], scope)}}}", VOID
        )

    def _extern_truncate(self, node: s.Call, scope: Scope) -> Value:
        return Value(f"intents.truncate_to = {self._number(self._take(node, 1)[0], scope).text}", VOID)

    def _extern_assert(self, node: s.Call, scope: Scope) -> Value:
        condition = self.condition(self._take(node, 1)[0], scope)
        return Value(f"if (!{condition.text}) assertion_failed({c_string(str(node.position))})", VOID)

    _extern_assume = _extern_assert

    def _extern_log_msg(self, node: s.Call, scope: Scope) -> Value:
        arguments = self._take(node, 1, 2)
        form = arguments[0]
        if not isinstance(form, s.String):
            raise CompileError(node.position, "log_msg takes a string")
        data = self.expression(arguments[1], scope) if len(arguments) == 2 else Value("", VOID, items=[])
        if data.items is None:
            raise CompileError(arguments[1].position, "the values of log_msg are a list: {...}")
        values = data.items
        pieces = form.value.replace("%", "%%").split("{}")
        if len(pieces) != len(values) + 1:
            raise CompileError(node.position, f"the message has {len(pieces) - 1} places, and {len(values)} values are given")
        text, shown = pieces[0], ""
        for value, piece in zip(values, pieces[1:], strict=True):
            bits = as_bits(value.type)
            if bits is None or bits.wide:
                raise unsupported(node.position, f"log_msg of {value.type}")
            text += ("%lld" if bits.signed else "%llu") + piece
            shown += f", ({'' if bits.signed else 'unsigned '}long long){value.text}"
        return Value(f"log_message({c_string(text)}{shown})", VOID)
