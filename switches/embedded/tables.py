"""Match-action tables: what the control plane is told of them, and apply()."""

from __future__ import annotations

from switches.embedded import syntax as s
from switches.embedded.errors import CompileError, Position, unsupported
from switches.embedded.patterns import Pattern, Patterns, bits_of
from switches.embedded.scope import ActionSymbol, DeclarationSymbol, ExternSymbol, Scope, TableSymbol, Value
from switches.embedded.text import c_string
from switches.embedded.types import EnumType, as_bits, c_type

DEFAULT_SIZE = 1024
LARGEST = 1 << 24  # entries of a table
MAX_ACTION_WORDS = 16  # as runtime/program.h has it
KINDS = ("exact", "lpm", "ternary", "range", "optional")
PROPERTIES = {"size", "default_action", "counters", "const_default_action"}


class Tables(Patterns):
    """Translates tables."""

    def __init__(self) -> None:
        super().__init__()
        self.table_names: list[str] = []
        self.translated_tables: dict[str, bool] = {}
        self.table_scopes: dict[str, Scope] = {}

    def declare_table(self, node: s.Table, scope: Scope, path: tuple[str, ...], control_name: str) -> None:
        c = self.unique("_".join((*path, node.name)))
        scope.declare(node.name, TableSymbol(node, c, control_name), node.position)
        self.table_scopes[c] = scope

    def apply_table(self, table: TableSymbol) -> str:
        """The C function that applies a table, translated at its first use."""
        if table.c not in self.translated_tables:
            self.translated_tables[table.c] = True
            self._translate(table, self.table_scopes[table.c])
        return f"apply_{table.c}"

    def _translate(self, table: TableSymbol, scope: Scope) -> None:
        node = table.node
        properties: dict[str, s.Property] = {}
        for prop in node.properties:
            if prop.name not in PROPERTIES:
                raise unsupported(prop.position, f"table property {prop.name}")
            if prop.name in properties:
                raise CompileError(prop.position, f"table {node.name} gives {prop.name} twice")
            properties[prop.name] = prop
        if "counters" in properties and node.entries:
            raise unsupported(properties["counters"].position, "counters of const entries")
        if node.entries and not node.key:
            raise CompileError(node.position, f"table {node.name} has entries, and no key")
        if sum(element.match_kind == "lpm" for element in node.key) > 1:
            raise CompileError(node.position, f"table {node.name} has more than one lpm key")
        bound = []
        for reference in node.actions:
            action = self.find_action(reference, scope)
            self._check_bound(action, reference)
            table.actions.append(action)
            bound.append(reference.arguments)
        if len({a.control_name for a in table.actions}) != len(table.actions):
            raise CompileError(node.position, f"table {node.name} lists an action twice")
        keys = [self._key(k, scope) for k in node.key]
        default, default_data = self._default(table, bound, properties.get("default_action"), scope)
        bound += [[]] * (len(table.actions) - len(bound))
        fixed_default = properties["default_action"].constant if "default_action" in properties else False
        self.name_once("table", table.control_name, node.position)
        self._describe(table, keys, default, default_data, fixed_default, properties, scope)
        self.table_names.append(table.c)

        with self.function(f"static struct outcome apply_{table.c}(void)", f"table {table.control_name} ({node.position})"):
            values = [v for _, _, v in keys]
            if node.entries:
                self._match_constants(table, keys, scope)
            elif keys:
                buffer = self._pack_key(values, node.position)
                self.emit(f"const struct entry *entry = table_lookup(&{table.c}, {buffer});")
                self.emit(f"const unsigned action = entry ? entry->action : {table.c}.default_action;")
                self.emit(f"const uint64_t *data = entry ? entry->data : {table.c}.default_data;")
                hit = "entry != NULL"
            if node.entries or not keys:
                self.emit(f"const unsigned action = {table.c}.default_action;")
                self.emit(f"const uint64_t *data = {table.c}.default_data;")
                hit = "false"
            self.emit("(void)data;")
            with self.indented("switch (action) {"):
                for i, action in enumerate(table.actions):
                    self.emit(f"case {i}:")
                    self.depth += 1
                    self._run(action, bound[i], scope, node.position, None)
                    self.emit("break;")
                    self.depth -= 1
            self.emit(f"return (struct outcome){{{hit}, action}};")

    def find_action(self, reference: s.ActionRef, scope: Scope) -> ActionSymbol:
        symbol = scope.get(reference.name, reference.position)
        if isinstance(symbol, DeclarationSymbol) and isinstance(symbol.node, s.Action):
            symbol = self.top_action(symbol)
        if not isinstance(symbol, ActionSymbol):
            raise CompileError(reference.position, f"{reference.name} is not an action")
        return symbol

    def _check_bound(self, action: ActionSymbol, reference: s.ActionRef) -> None:
        directed = [bool(p.direction) for p in action.node.parameters]
        if directed != sorted(directed, reverse=True):
            raise CompileError(
                action.node.position,
                f"action {action.node.name}: parameters without a direction come last (the control plane sets them)",
            )
        if len(reference.arguments) != sum(directed):
            raise CompileError(
                reference.position,
                f"the table must bind the {sum(directed)} parameters of {reference.name} that have a direction, "
                f"and gives {len(reference.arguments)}",
            )

    def _key(self, element: s.KeyElement, scope: Scope) -> tuple[str, str, Value]:
        if element.match_kind not in self.match_kinds:
            raise CompileError(element.position, f"{element.match_kind} is not a match kind")
        if element.match_kind not in KINDS:
            raise unsupported(element.position, f"match kind {element.match_kind}")
        value = self.expression(element.expression, scope)
        if as_bits(value.type) is None or (
            isinstance(value.type, EnumType) and value.type.name != "error" and not value.type.underlying
        ):
            raise CompileError(element.position, f"a key of {value.type} is not possible")
        names = [a.text() for a in element.annotations if a.name == "name" and a.body]
        return (names[0] if names else source_text(element.expression)), element.match_kind, value

    def _pack_key(self, values: list[Value], position: Position) -> str:
        """Emit the key as bytes, each field rounded up to whole bytes; the buffer's C name."""
        buffer = "key"
        size = sum(bits_of(v.type).size for v in values)
        self.emit(f"uint8_t {buffer}[{size}];")
        offset = 0
        for v in values:
            bits = bits_of(v.type)
            if bits.wide:
                held = self.temporary()
                self.emit(f"const {bits.storage} {held} = {v.text};")
                self.emit(f"memcpy({buffer} + {offset}, {held}.b, {bits.size});")
            else:
                mask = f" & {hex(bits.mask)}ull" if bits.signed else ""
                self.emit(f"store{bits.size * 8}({buffer} + {offset}, (uint64_t){v.text}{mask});")
            offset += bits.size
        return buffer

    def _default(
        self, table: TableSymbol, bound: list[list[s.Expression]], prop: s.Property | None, scope: Scope
    ) -> tuple[int, list[int]]:
        if prop is None:
            for i, action in enumerate(table.actions):
                if action.node.name == "NoAction":
                    return i, []
            table.actions.append(self.find_action(s.ActionRef(table.node.position, "NoAction", [], []), scope))
            return len(table.actions) - 1, []
        node = prop.value
        if isinstance(node, s.Name):
            node = s.Call(node.position, node, [])
        if not isinstance(node, s.Call) or not isinstance(node.function, s.Name):
            raise CompileError(prop.position, "default_action must be an action, with its arguments")
        names = [a.node.name for a in table.actions]
        if node.function.name not in names:
            raise CompileError(prop.position, f"default action {node.function.name} is not among the table's actions")
        i = names.index(node.function.name)
        if any(a.name == "tableonly" for a in table.node.actions[i].annotations):
            raise CompileError(prop.position, f"{node.function.name} is marked @tableonly")
        given = node.arguments
        if bound[i] and len(given) == len(table.actions[i].node.parameters):
            if [source_text(a) for a in given[: len(bound[i])]] != [source_text(a) for a in bound[i]]:
                raise CompileError(prop.position, f"{node.function.name} has other arguments in the list of actions")
            given = given[len(bound[i]) :]  # those that the list of actions binds may be said again
        return i, self._action_data(table.actions[i], given, scope, prop.position)

    def _action_data(self, action: ActionSymbol, arguments: list[s.Expression], scope: Scope, position: Position) -> list[int]:
        """Constant arguments for the parameters that the control plane fills, as 64-bit words."""
        parameters = [p for p in action.node.parameters if not p.direction]
        if len(parameters) != len(arguments):
            raise CompileError(position, f"{action.node.name} takes {len(parameters)} arguments, and {len(arguments)} are given")
        words: list[int] = []
        for parameter, argument in zip(parameters, arguments, strict=True):
            type_ = self.resolve(parameter.type, action.scope)
            value = self.coerce(self.expression(argument, scope), type_, argument.position)
            if value.constant is None:
                raise CompileError(argument.position, "this argument must be known when compiling")
            bits = bits_of(type_)
            if bits.wide:
                raise unsupported(argument.position, "a constant argument of more than 64 bits")
            words.append(int(value.constant) & bits.mask)
        return words

    def _run(
        self, action: ActionSymbol, bound: list[s.Expression], scope: Scope, position: Position, data: list[int] | None
    ) -> None:
        """Emit the call of a table's action: bound arguments, then the entry's data (or constants)."""
        parameters = action.node.parameters
        directed = [p for p in parameters if p.direction]
        types = [self.resolve(p.type, action.scope) for p in directed]
        with self.indented("{"):
            passed, after = self.bind(directed, types, bound, scope, position)
            word = 0
            for parameter in (p for p in parameters if not p.direction):
                type_ = self.resolve(parameter.type, action.scope)
                bits = bits_of(type_)
                if bits.wide:
                    passed.append(f"*(const {bits.storage} *)(data + {word})")
                    word += (bits.size + 7) // 8
                else:
                    passed.append(f"({c_type(type_)})data[{word}]" if data is None else f"({c_type(type_)}){data[word]}u")
                    word += 1
            self.emit(f"{self.action_function(action)}({', '.join(passed)});")
            for line in after:
                self.emit(line)

    def action_function(self, action: ActionSymbol) -> str:
        raise AssertionError("Controls has it")

    def _match_constants(self, table: TableSymbol, keys: list[tuple[str, str, Value]], scope: Scope) -> None:
        """Constant entries as a chain of conditions, in the order of their precedence."""
        if not table.node.constant_entries:
            raise unsupported(table.node.position, "entries that are not const")
        kinds = {kind for _, kind, _ in keys}
        names = []
        for i, (_, _, v) in enumerate(keys):
            names.append(f"key${i}")
            self.emit(f"const {c_type(v.type)} key${i} = {v.text};")
        by_length = "lpm" in kinds and kinds <= {"lpm", "exact"}
        rows = []
        seen = set()
        for order, entry in enumerate(table.node.entries):
            if len(entry.keys) == 1 and isinstance(entry.keys[0], s.DontCare) and len(keys) > 1:
                patterns = []
            elif len(entry.keys) != len(keys):
                raise CompileError(entry.position, f"the key has {len(keys)} fields, and {len(entry.keys)} are given")
            else:
                patterns = [
                    self.pattern(k, kind, names[i], v.type, scope)
                    for i, (k, (_, kind, v)) in enumerate(zip(entry.keys, keys, strict=True))
                ]
            precedence = self._precedence(entry, order, patterns, by_length, kinds == {"exact"}, scope)
            rows.append((precedence, order, patterns, entry))
            identity = (*(p.identity for p in patterns), 0 if by_length else precedence)
            if identity in seen:
                raise CompileError(entry.position, f"table {table.node.name} has two entries of this key")
            seen.add(identity)
        listed = [a.node.name for a in table.actions]
        for _, _, patterns, entry in sorted(rows, key=lambda row: row[:2]):
            if entry.action.name not in listed:
                raise CompileError(entry.position, f"{entry.action.name} is not among the table's actions")
            i = listed.index(entry.action.name)
            if any(a.name == "defaultonly" for a in table.node.actions[i].annotations):
                raise CompileError(entry.position, f"{entry.action.name} is marked @defaultonly")
            data = self._action_data(table.actions[i], entry.action.arguments, scope, entry.position)
            tests = [p.condition for p in patterns if p.condition]
            with self.indented(f"if ({' && '.join(tests) or 'true'}) {{"):
                self._run(table.actions[i], [], scope, entry.position, data)
                self.emit(f"return (struct outcome){{true, {i}}};")

    def _precedence(self, entry: s.Entry, order: int, patterns: list[Pattern], by_length: bool, exact: bool, scope: Scope) -> int:
        """Lower goes first: the longer prefix; in other tables the entry's @priority, or else its place from 1."""
        if entry.priority is not None:
            raise CompileError(entry.position, "const entries have no priorities (p4c takes @priority)")
        if by_length:
            return -sum(p.fixed for p in patterns)
        given = [a for a in entry.annotations if a.name == "priority"]
        if exact or not given:
            return 0 if exact else order + 1
        if len(given[0].body) != 1 or not given[0].body[0].isdigit():
            raise CompileError(given[0].position, "@priority takes one number")
        return int(given[0].body[0])

    def _describe(
        self, table: TableSymbol, keys: list[tuple[str, str, Value]], default: int, data: list[int], fixed_default: bool,
        properties: dict[str, s.Property], scope: Scope,
    ) -> None:  # fmt: skip
        """The table as the control plane sees it."""
        size = self.constant(properties["size"].value, scope) if "size" in properties else DEFAULT_SIZE
        if not 0 <= size <= LARGEST:
            raise CompileError(properties["size"].position, f"a table of {size} entries is not possible (at most {LARGEST})")
        size = size or DEFAULT_SIZE  # as p4c
        out = self.globals
        rows = ", ".join(f"{{{c_string(name)}, MATCH_{kind.upper()}, {bits_of(v.type).width}}}" for name, kind, v in keys)
        if keys:
            out.append(f"static const struct key_field {table.c}_keys[] = {{{rows}}};")
        for i, action in enumerate(table.actions):
            parameters = [p for p in action.node.parameters if not p.direction]
            for p in parameters:
                if as_bits(self.resolve(p.type, action.scope)) is None:
                    raise unsupported(p.position, f"an action parameter of type {self.resolve(p.type, action.scope)} in a table")
            size_in_words = sum((bits_of(self.resolve(p.type, action.scope)).size + 7) // 8 for p in parameters)
            if size_in_words > MAX_ACTION_WORDS:
                raise unsupported(
                    action.node.position, f"an action with {size_in_words} words of parameters (at most {MAX_ACTION_WORDS})"
                )
            if parameters:
                fields = ", ".join(f'{{"{p.name}", {bits_of(self.resolve(p.type, action.scope)).width}}}' for p in parameters)
                out.append(f"static const struct action_parameter {table.c}_{i}_parameters[] = {{{fields}}};")
        rows = ", ".join(
            f"{{{c_string(a.control_name)}, "
            + (f"{table.c}_{i}_parameters, {n}" if (n := sum(not p.direction for p in a.node.parameters)) else "NULL, 0")
            + "}"
            for i, a in enumerate(table.actions)
        )
        out.append(f"static const struct action_info {table.c}_actions[] = {{{rows}}};")
        counts = "false"
        if "counters" in properties:
            value = properties["counters"].value
            symbol = scope.find(value.name) if isinstance(value, s.Name) else None
            if not isinstance(symbol, ExternSymbol) or symbol.kind != "direct_counter":
                raise CompileError(properties["counters"].position, "counters must name a direct_counter")
            counts = f"true, .counter_name = {c_string(symbol.control_name)}"
        words = ", ".join(f"UINT64_C({w})" for w in data)
        key_fields = f"{table.c}_keys" if keys else "NULL"
        constant, constant_default = ("true" if is_ else "false" for is_ in (table.node.constant_entries, fixed_default))
        out.append(
            f"static struct table {table.c} = {{.name = {c_string(table.control_name)}, .keys = {key_fields}, "
            f".key_count = {len(keys)}, .key_bytes = {sum(bits_of(v.type).size for _, _, v in keys)}, "
            f".actions = {table.c}_actions, .action_count = {len(table.actions)}, .size = {size}, "
            f".constant = {constant}, .constant_default = {constant_default}, "
            f".first_default = {default}, .first_default_data = {{{words or '0'}}}, .counts = {counts}}};"
        )


def source_text(node: s.Expression) -> str:
    """An expression as the control plane names a key: hdr.ipv4.dst."""
    if isinstance(node, s.Name):
        return node.name
    if isinstance(node, s.Member):
        return f"{source_text(node.base)}.{node.name}"
    if isinstance(node, s.Call):
        return f"{source_text(node.function)}()"
    if isinstance(node, s.Slice):
        return f"{source_text(node.base)}[..]"
    return "key"
