"""Parsers: one C function each, states as labels; `at` walks over the packet up to `end`."""

from __future__ import annotations

from .. import checked
from .. import syntax as s
from ..types import Header, HeaderUnion, Stack, Struct, Varbit, as_bits, bit_width
from . import blocks, expressions, statements, trace, value_sets
from .assignment import invalidate, local, others_of
from .context import DONE, Context, Value
from .ctypes import c_type, size_of
from .place import Place
from .tables import condition
from .wire import cells_of, load, read_cells

FAIL = "goto fail;"
REJECTED = "REJECTED"  # what a parser returns, in place of an error's number, that ends those which apply it without an error


def function(c: Context, parser: checked.Instance, name: str) -> None:
    """Write a parser's C function; it returns the number of an error, REJECTED, or 0 where it accepts."""
    names = [state.name for state in parser.states]
    with c.function(f"static uint32_t {name}(void)", f"parser {parser.name} ({parser.position})", leave=FAIL):
        c.emit("uint32_t error$ = 0;")
        blocks.start(c, parser)
        c.emit("goto state_start;")
        for state in parser.states:
            c.depth -= 1
            c.emit(f"state_{state.name}:")
            c.depth += 1
            with c.indented("{"):
                _state(c, state, names)
        c.depth -= 1
        c.emit("fail:")
        c.depth += 1
        c.emit("return error$;")


def application(name: str) -> tuple[str, str]:
    """The C statements that run a parser within another, and that end the other one, too, where it does not accept.

    Results are copied out between them in both cases: p4c inlines parsers, and has most parameters stand for
    their arguments.
    """
    return f"error$ = {name}();", f"if (error$ != 0) {FAIL}"


def _state(c: Context, state: checked.State, names: list[str]) -> None:
    trace.state(c, state)
    for statement in state.statements:
        statements.statement(c, statement)
    here = names.index(state.name)
    if state.next:
        _go_to(c, state.next, names, here)
        return
    for i, one in enumerate(state.select):
        c.emit(f"const {c_type(c, one.type)} key${i} = {expressions.expression(c, one).text};")
    for case in state.cases:
        tests = _tests(c, state, case)
        with c.indented(f"if ({' && '.join(tests) or 'true'}) {{"):
            _go_to(c, case.state, names, here)
    c.emit(f"return {REJECTED}; // no case matches; simple_switch sets no NoMatch")


def _tests(c: Context, state: checked.State, case: checked.Case) -> list[str]:
    """The conditions of a case, in C."""
    if len(case.keys) < len(state.select):  # one value set for all keys
        assert case.keys[0].values is not None
        return [value_sets.test(c, case.keys[0].values, [f"key${i}" for i in range(len(state.select))])]
    tests = []
    for i, (one, pattern) in enumerate(zip(state.select, case.keys, strict=True)):
        if pattern.values is not None:
            tests.append(value_sets.test(c, pattern.values, [f"key${i}"]))
        elif test := condition(f"key${i}", one.type, pattern, case):
            tests.append(test)
    return tests


def _go_to(c: Context, target: str, names: list[str], here: int) -> None:
    if target in ("accept", "reject"):
        c.emit(f"return {0 if target == 'accept' else REJECTED};")
    else:
        if names.index(target) <= here:
            with c.indented("if (++parser_steps > MAX_PARSER_STEPS) {"):
                _fail(c, "ParserTimeout")
        c.emit(f"goto state_{target};")


def _fail(c: Context, error: str) -> None:
    c.emit(f"error$ = {c.error(error)}u; // {error}")
    c.emit(FAIL)


def _need(c: Context, size: str) -> None:
    with c.indented(f"if ((size_t)(end - at) < {size}) {{"):
        _fail(c, "PacketTooShort")


# --- packet_in (section 13.8), and verify


def extract(c: Context, node: s.Call) -> Value:
    argument = node.arguments[0]
    assert isinstance(argument.type, Header)
    unused = isinstance(argument, s.DontCare)
    place = local(c, "unused", argument.type) if unused else expressions.place(c, argument)
    following = _following(c, argument)
    if following is not None:
        place_of_next, size_of_stack = following
        with c.indented(f"if ({place_of_next} >= {size_of_stack}) {{"):
            _fail(c, "StackOutOfBounds")
    cells, varbit = cells_of(argument.type, place)
    size = argument.type.width // 8
    if varbit is None:
        _need(c, str(size))
    else:
        extra = _varbit_bits(c, node, argument.type)
    read_cells(c, cells, "at")
    c.emit(f"{place.part('valid')} = true;")
    invalidate(c, others_of(place, argument))
    c.emit(f"at += {size};")
    if varbit is not None:
        c.emit(f"{varbit.part('used')} = {extra} / 8;")
        c.emit(f"memcpy({varbit.part('bytes')}, at, {extra} / 8);")
        c.emit(f"at += {extra} / 8;")
    if following is not None:
        c.emit(f"{place_of_next}++;")
    return DONE


def _following(c: Context, argument: s.Expression) -> tuple[Place, int] | None:
    """The counter and the size of the stack whose .next is extracted, or a header of a union that is .next."""
    if isinstance(argument, s.Member) and isinstance(argument.base.type, HeaderUnion):
        argument = argument.base
    if isinstance(argument, s.Member) and isinstance(argument.base.type, Stack):
        return expressions.place(c, argument.base).part("next_"), argument.base.type.size
    return None


def _varbit_bits(c: Context, node: s.Call, header: Header) -> str:
    """The length of the varbit field that is extracted, once it is known to be possible."""
    extra = c.temporary("bits")
    c.emit(f"const uint32_t {extra} = {expressions.expression(c, node.arguments[1]).text};")
    with c.indented(f"if ({extra} % 8) {{"):
        _fail(c, "ParserInvalidArgument")
    _need(c, f"{header.width // 8} + {extra} / 8")
    most = next(f.type.width for f in header.fields if isinstance(f.type, Varbit))
    with c.indented(f"if ({extra} > {most}) {{"):
        _fail(c, "HeaderTooShort")
    return extra


def advance(c: Context, node: s.Call) -> Value:
    bits = expressions.held(c, expressions.expression(c, node.arguments[0])).text
    with c.indented(f"if ({bits} % 8) {{"):
        _fail(c, "ParserInvalidArgument")
    _need(c, f"{bits} / 8")
    c.emit(f"at += {bits} / 8;")
    return DONE


def lookahead(c: Context, node: s.Call) -> Value:
    type_ = node.type
    if isinstance(type_, Struct):
        made = local(c, "ahead", type_)
        _need(c, str((bit_width(type_) + 7) // 8))
        read_cells(c, cells_of(type_, made)[0], "at")
        if isinstance(type_, Header):
            c.emit(f"{made.part('valid')} = true;")
        return Value(str(made), type_, True, made)
    bits = as_bits(type_)
    assert bits is not None
    c_type(c, bits)
    _need(c, str(size_of(bits)))
    return expressions.held(c, Value(load(bits, "at", 0), type_))


def verify(c: Context, node: s.Call) -> Value:
    condition_, error = expressions.all_in_order(c, node.arguments)
    with c.indented(f"if (!{condition_.text}) {{"):
        c.emit(f"error$ = {error.text};")
        c.emit(FAIL)
    return DONE
