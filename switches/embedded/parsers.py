"""Parsers: one C function each, states as labels; `at` walks over the packet up to `end`."""

from __future__ import annotations

from switches.embedded import syntax as s
from switches.embedded.controls import Controls
from switches.embedded.errors import CompileError, unsupported
from switches.embedded.patterns import SELECT
from switches.embedded.scope import InstanceSymbol, Scope, Value
from switches.embedded.types import VOID, Bits, EnumType, Header, Stack, Struct, Type, Varbit, as_bits, c_name
from switches.embedded.wire import load

TOO_SHORT = "PacketTooShort"


class Parsers(Controls):
    """Translates parsers."""

    def translate_instance(self, instance: InstanceSymbol, c: str, scope: Scope) -> None:
        if isinstance(instance.node, s.Control):
            super().translate_instance(instance, c, scope)
            return
        node: s.Parser = instance.node
        start = self.declare_locals(node.locals, scope, instance.path)
        names = [state.name for state in node.states]
        if "start" not in names:
            raise CompileError(node.position, f"parser {node.name} has no state start")
        if reserved := [state for state in node.states if state.name in ("accept", "reject")]:
            raise CompileError(reserved[0].position, f"state {reserved[0].name} is built in")
        if not _ends(node):
            raise CompileError(node.position, f"parser {node.name} never reaches accept")
        if len(set(names)) != len(names):
            raise CompileError(node.position, f"parser {node.name} has two states of one name")
        saved = self.result, self.leave, self.parser_fail
        self.result, self.leave, self.parser_fail = VOID, "goto fail;", "fail"
        with self.function(f"static uint32_t {c}(void)", f"parser {node.name} ({node.position})"):
            self.emit("uint32_t error$ = 0;")
            for variable, initial in start:
                self._start(variable, initial, scope)
            self.emit("goto state_start;")
            for state in node.states:
                self.depth -= 1
                self.emit(f"state_{state.name}:")
                self.depth += 1
                with self.indented("{"):
                    self._state(state, names, Scope(scope))
            self.depth -= 1
            self.emit("fail:")
            self.depth += 1
            self.emit("return error$;")
        self.result, self.leave, self.parser_fail = saved

    def application(self, c: str, node: s.Control | s.Parser) -> str:
        if isinstance(node, s.Control):
            return super().application(c, node)
        return f"if ((error$ = {c}()) != 0) goto fail;"

    def _state(self, state: s.State, names: list[str], scope: Scope) -> None:
        for statement in state.statements:
            if isinstance(statement, (s.Return, s.Exit)):
                raise CompileError(statement.position, "this cannot stand in a parser")
            self.statement(statement, scope)
        here = names.index(state.name)
        if state.transition is None:
            raise unsupported(state.position, f"state {state.name} without a transition (it would reject)")
        if isinstance(state.transition, str):
            self._goto(state.transition, names, here, state)
            return
        select = state.transition
        keys = []
        for i, expression in enumerate(select.expressions):
            value = self.expression(expression, scope)
            bits = as_bits(value.type)
            if bits is None or bits.wide:
                raise unsupported(expression.position, f"select over {value.type}")
            self.emit(f"const {bits.compute} key${i} = {value.text};")
            keys.append(value.type)
        complete = False
        for case in select.cases:
            tests = self._tests(case, keys, scope)
            if complete:
                self.warn(case.position, "unreachable case")
            complete = complete or not tests
            with self.indented(f"if ({' && '.join(tests) or 'true'}) {{"):
                self._goto(case.state, names, here, case)
        self.emit("return 0; // no case matches: simple_switch accepts, and sets no NoMatch")

    def _goto(self, target: str, names: list[str], here: int, node: s.Node) -> None:
        if target == "accept":
            self.emit("return 0;")
        elif target == "reject":
            raise unsupported(node.position, "transition reject (use verify)")
        elif target not in names:
            raise CompileError(node.position, f"there is no state {target}")
        else:
            if names.index(target) <= here:
                with self.indented("if (++parser_steps > MAX_PARSER_STEPS) {"):
                    self._fail("ParserTimeout")
            self.emit(f"goto state_{target};")

    def _fail(self, error: str) -> None:
        self.emit(f"error$ = {self.error_type().value(error)}u; // {error}")
        self.emit("goto fail;")

    def _need(self, size: str) -> None:
        with self.indented(f"if ((size_t)(end - at) < {size}) {{"):
            self._fail(TOO_SHORT)

    def _tests(self, case: s.SelectCase, keys: list[Type], scope: Scope) -> list[str]:
        if len(case.keys) == 1 and isinstance(case.keys[0], s.DontCare):
            return []
        if len(case.keys) != len(keys):
            raise CompileError(case.position, f"select has {len(keys)} keys, and this case has {len(case.keys)}")
        return [p.condition for i, (k, t) in enumerate(zip(case.keys, keys, strict=True))
                if (p := self.pattern(k, SELECT, f"key${i}", t, scope)).condition]  # fmt: skip

    # --- packet_in (section 13.8)

    def packet_method(self, name: str, node: s.Call, scope: Scope) -> Value:
        if self.parser_fail is None:
            if name == "emit" and len(node.arguments) == 1:
                if self.in_action:
                    raise unsupported(node.position, "emit in an action")
                emitted = self.expression(node.arguments[0], scope)
                self.emit_value(emitted, node.position)
                self.count_emitted(self.emit_size(emitted), node.position)
                return Value("", VOID)
            return super().packet_method(name, node, scope)
        if name == "extract" and len(node.arguments) in (1, 2):
            self._extract(node, scope)
            return Value("", VOID)
        if name == "advance" and len(node.arguments) == 1:
            value = self.coerce(self.expression(node.arguments[0], scope), Bits(32), node.position).text
            with self.indented(f"if ({value} % 8) {{"):
                self._fail("ParserInvalidArgument")
            self._need(f"{value} / 8")
            self.emit(f"at += {value} / 8;")
            return Value("", VOID)
        if name == "length" and not node.arguments:
            return Value("packet_length", Bits(32))
        if name == "lookahead" and len(node.type_arguments) == 1:
            return self._lookahead(self.resolve(node.type_arguments[0], scope), node)
        return super().packet_method(name, node, scope)

    def _extract(self, node: s.Call, scope: Scope) -> None:
        argument = node.arguments[0]
        if isinstance(argument, s.DontCare):
            raise unsupported(argument.position, "extract(_)")
        target = self.place(argument, scope)
        if not isinstance(target.type, Header):
            raise CompileError(argument.position, f"only a header can be extracted, and this is {target.type}")
        stack = self._stack_of(argument, scope)
        if stack is not None:
            with self.indented(f"if ({stack.text}.next_ >= {stack.type.size}) {{"):  # type: ignore[attr-defined]
                self._fail("StackOutOfBounds")
        cells, varbit = self.header_cells(target.type, target.text)
        size = target.type.width // 8
        extra = None
        if len(node.arguments) == 2:
            if varbit is None:
                raise CompileError(node.position, f"header {target.type} has no varbit field")
            length = self.coerce(self.expression(node.arguments[1], scope), Bits(32), node.arguments[1].position)
            extra = self.temporary("bits")
            self.emit(f"const uint32_t {extra} = {length.text};")
            with self.indented(f"if ({extra} % 8) {{"):
                self._fail("ParserInvalidArgument")
            self._need(f"{size} + {extra} / 8")
            with self.indented(f"if ({extra} > {varbit.width}) {{"):
                self._fail("HeaderTooShort")
        elif varbit is not None:
            raise CompileError(node.position, f"header {target.type} has a varbit field: extract needs its length")
        else:
            self._need(str(size))
        self.read_cells(cells, "at")
        self.emit(f"{target.text}.valid = true;")
        self.emit(f"at += {size};")
        if extra is not None:
            field = next(f for f in target.type.fields if isinstance(f.type, Varbit))
            name = f"{target.text}.{c_name(field.name)}"
            self.emit(f"{name}.used = {extra} / 8;")
            self.emit(f"memcpy({name}.bytes, at, {extra} / 8);")
            self.emit(f"at += {extra} / 8;")
        if stack is not None:
            self.emit(f"{stack.text}.next_++;")

    def _stack_of(self, argument: s.Expression, scope: Scope) -> Value | None:
        """The stack whose .next is extracted, if that is what happens."""
        if isinstance(argument, s.Member) and argument.name == "next":
            base = self.expression(argument.base, scope)
            if isinstance(base.type, Stack):
                return base
        return None

    def _lookahead(self, type_: Type, node: s.Call) -> Value:
        if isinstance(type_, Struct):
            held = Value(self.declare_local("ahead", type_), type_)
            if not isinstance(type_, Header):
                raise unsupported(node.position, "lookahead of a struct")
            cells, varbit = self.header_cells(type_, held.text)
            if varbit is not None:
                raise unsupported(node.position, "lookahead of a varbit")
            self._need(str(type_.width // 8))
            self.read_cells(cells, "at")
            self.emit(f"{held.text}.valid = true;")
            return held
        bits = as_bits(type_)
        if bits is None:
            raise unsupported(node.position, f"lookahead of {type_}")
        self._need(str(bits.size))
        return Value(load(bits, "at", 0), type_)

    def _extern_verify(self, node: s.Call, scope: Scope) -> Value:
        if self.parser_fail is None:
            raise CompileError(node.position, "verify stands in a parser only")
        condition, error = self._take(node, 2)
        value = self.expression(error, scope)
        if not isinstance(value.type, EnumType) or value.type.name != "error":
            raise CompileError(error.position, "verify needs an error")
        with self.indented(f"if (!{self.condition(condition, scope).text}) {{"):
            self.emit(f"error$ = {value.text};")
            self.emit("goto fail;")
        return Value("", VOID)


def _ends(parser: s.Parser) -> bool:
    """True if transitions lead from start to accept or reject, or a state has none (which rejects)."""
    states = {state.name: state.transition for state in parser.states}
    reached, waiting = set(), ["start"]
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        transition = states.get(name)
        waiting += [transition] if isinstance(transition, str) else [c.state for c in transition.cases] if transition else []
        if transition is None:
            return True
    return False
