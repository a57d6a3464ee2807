"""Instances of parsers and controls: a C function each, its variables static, as one packet is processed at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from .. import checked
from .. import syntax as s
from ..text import c_string
from ..types import VOID, ExternType, HeaderUnion, as_bits
from . import expressions, externs, statements
from .context import DONE, Context, Place, Value
from .ctypes import c_type, is_aggregate, is_wide
from .expressions import Target, clear, read, store, target
from .packets import FAIL, Cell, fail, pattern
from .tables import condition

REJECTED = "REJECTED"  # what a parser returns, in place of an error's number, that ends those which apply it without an error


def function(c: Context, instance: checked.Instance, shared: dict[checked.Variable, Place]) -> str:
    """The C function of an instance, written at its first use. Parameters are C variables of its own, but for those that are
    `shared`, which stand for the same place wherever it is applied."""
    if instance in c.named:
        return c.named[instance]
    name = c.named[instance] = c.unique("_".join(instance.path))
    for parameter in instance.parameters:
        c.places[parameter] = shared.get(parameter) or _static(c, instance, parameter)
    externs.declare(c, instance.externs)
    for node in instance.variables:
        c.places[node.symbol] = _static(c, instance, node.symbol)
    if instance.kind == "parser":
        _parser(c, instance, name)
    else:
        assert instance.body is not None
        with c.function(f"static void {name}(void)", f"control {instance.name} ({instance.position})"):
            start(c, instance)
            statements.block(c, instance.body)
    return name


def start(c: Context, instance: checked.Instance) -> None:
    """Give the variables of a parser or control their first values."""
    for node in instance.variables:
        clear(c, c.places[node.symbol], node.symbol.type)
        statements.start(c, node)


def _static(c: Context, instance: checked.Instance, variable: checked.Variable) -> Place:
    if isinstance(variable.type, ExternType):
        return Place("packet")
    name = c.unique("_".join((*instance.path, variable.name)))
    c.globals.append(f"static {c_type(c, variable.type)} {name};")
    return Place(name)


# --- applying an instance


def _apply(c: Context, node: s.Call) -> Value:
    """Apply an instance to arguments, by copy-in and copy-out (section 6.8)."""
    instance: checked.Instance = node.callee.target
    shared = {p: place for i, p in enumerate(instance.parameters) if (place := _shared(c, instance, i)) is not None}
    name = function(c, instance, shared)
    evaluations: list[Callable[[], Value]] = []
    targets: list[tuple[checked.Variable, Target]] = []
    for parameter, argument in zip(instance.parameters, node.arguments, strict=True):
        if parameter not in shared and not isinstance(parameter.type, ExternType):
            evaluations.append(partial(_copied_in, c, parameter, argument, targets))
    copied = [p for p in instance.parameters if p not in shared and not isinstance(p.type, ExternType)]
    for parameter, value in zip(copied, expressions.in_order(c, evaluations), strict=True):
        if value.text:
            c.emit(f"{c.places[parameter]} = {value.text};")
    for parameter in instance.parameters:
        if parameter.direction == "out" and not isinstance(parameter.type, ExternType):
            clear(c, c.places[parameter], parameter.type)
    run, ended = _application(name) if instance.kind == "parser" else (f"{name}();", "")
    c.emit(run)
    for parameter, to in targets:
        store(c, to, str(c.places[parameter]))
    if ended:
        c.emit(ended)
    c.check_exit()
    return DONE


def _copied_in(
    c: Context, parameter: checked.Variable, argument: s.Expression, targets: list[tuple[checked.Variable, Target]]
) -> Value:
    """The value that a parameter begins with; notes where its last one goes."""
    if parameter.direction not in ("out", "inout"):
        return c.expression(argument)
    if isinstance(argument, s.DontCare):
        return Value("", VOID, True)
    to = target(c, argument)
    targets.append((parameter, to))
    return read(to) if parameter.direction == "inout" else Value("", VOID, True)


def _shared(c: Context, instance: checked.Instance, i: int) -> Place | None:
    """Where a header or struct parameter always is, if that is the same place wherever the instance is applied, and nothing else
    that is given to it overlaps."""
    parameter = instance.parameters[i]
    if not is_aggregate(parameter.type):
        return None
    found = {expressions.static_place(call.arguments[i]) for call in instance.applied}
    where = found.pop() if len(found) == 1 else None
    if where is None or not where[0].lasting:
        return None
    first = instance.applied[0].arguments[i]
    if isinstance(first, s.Member) and isinstance(first.base.type, HeaderUnion):  # the others become invalid at the end
        return None
    for call in instance.applied:
        for j, other in enumerate(call.arguments):
            written = {parameter.direction, instance.parameters[j].direction} & {"out", "inout"}
            if j != i and written and expressions.may_overlap(call.arguments[i], other):
                return None
    return expressions.place(c, first)


# --- parsers: states are labels; `at` walks over the packet up to `end`


def _parser(c: Context, parser: checked.Instance, name: str) -> None:
    """Write a parser's C function; it returns the number of an error, REJECTED, or 0 where it accepts."""
    names = [state.name for state in parser.states]
    with c.function(f"static uint32_t {name}(void)", f"parser {parser.name} ({parser.position})", leave=FAIL):
        c.emit("uint32_t error$ = 0;")
        start(c, parser)
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


def _application(name: str) -> tuple[str, str]:
    """The C statements that run a parser within another, and that end the other one, too, where it does not accept.

    Results are copied out between them in both cases: p4c inlines parsers, and has most parameters stand for
    their arguments.
    """
    return f"error$ = {name}();", f"if (error$ != 0) {FAIL}"


def _state(c: Context, state: checked.State, names: list[str]) -> None:
    c.step(state.position, f"state {state.name}")
    for statement in state.statements:
        c.statement(statement)
    here = names.index(state.name)
    if state.next:
        _go_to(c, state.next, names, here)
        return
    for i, one in enumerate(state.select):
        c.emit(f"const {c_type(c, one.type)} key${i} = {c.expression(one).text};")
    for case in state.cases:
        tests = _tests(c, state, case)
        with c.indented(f"if ({' && '.join(tests) or 'true'}) {{"):
            _go_to(c, case.state, names, here)
    c.emit(f"return {REJECTED}; // no case matches; simple_switch sets no NoMatch")


def _tests(c: Context, state: checked.State, case: checked.Case) -> list[str]:
    """The conditions of a case, in C."""
    if len(case.keys) < len(state.select):  # one value set for all keys
        assert case.keys[0].values is not None
        return [_in_values(c, case.keys[0].values, [f"key${i}" for i in range(len(state.select))])]
    tests = []
    for i, (one, key) in enumerate(zip(state.select, case.keys, strict=True)):
        if key.values is not None:
            tests.append(_in_values(c, key.values, [f"key${i}"]))
        elif test := condition(f"key${i}", one.type, key, case):
            tests.append(test)
    return tests


def _go_to(c: Context, target: str, names: list[str], here: int) -> None:
    if target in ("accept", "reject"):
        c.emit(f"return {0 if target == 'accept' else REJECTED};")
    else:
        if names.index(target) <= here:
            with c.indented("if (++parser_steps > MAX_PARSER_STEPS) {"):
                fail(c, "ParserTimeout")
        c.emit(f"goto state_{target};")


# --- value sets (section 12.11): what select looks up in them


def _in_values(c: Context, values: checked.ValueSet, keys: list[str]) -> str:
    """C that tells whether keys are, side by side, one of the values."""
    if values not in c.named:
        c.named[values] = _value_set(c, values)
    return f"{c.named[values]}({', '.join(keys)})"


def _value_set(c: Context, values: checked.ValueSet) -> str:
    """The C function of a value set; a value is right-aligned in whole bytes, as commands write it."""
    name = c.unique("_".join((*values.path, values.name)))
    fields = [bits for f in values.fields if (bits := as_bits(f)) is not None]
    width = sum(bits.width for bits in fields)
    size = (width + 7) // 8
    c.globals.append(f"static uint8_t {name}_values[{values.size}][{size}];")
    c.globals.append(
        f"static struct value_set {name} = {{{c_string(values.control_name)}, {width}, {values.size}, 0, {name}_values[0]}};"
    )
    c.value_sets.append(name)
    parameters = ", ".join(f"const {c_type(c, f)} key{i}" for i, f in enumerate(values.fields))
    with c.function(f"static bool in_{name}({parameters})", f"value_set {values.control_name} ({values.position})"):
        c.emit(f"uint8_t value[{size}] = {{0}};")
        c.emit(f"unsigned at = {size * 8 - width};")
        for i, bits in enumerate(fields):
            if is_wide(bits):
                c.emit(f"at = append_wide(value, at, {bits.width}, key{i}.b);")
            else:
                c.emit(f"at = append_bits(value, at, {bits.width}, {pattern(Cell(f'key{i}', 0, bits))});")
        c.emit("(void)at;")
        c.emit(f"return value_set_has(&{name}, value);")
    return f"in_{name}"


CALLS: dict[type, Callable[[Context, s.Call], Value]] = {checked.Instance: _apply}
