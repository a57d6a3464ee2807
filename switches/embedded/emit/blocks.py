"""Instances of parsers and controls: a C function each, its variables static, as one packet is processed at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from .. import checked
from .. import syntax as s
from ..types import VOID, ExternType, HeaderUnion
from . import calls, expressions, objects, statements, states
from .assignment import Target, clear, read, store, target
from .context import Context, Value
from .ctypes import c_type, is_aggregate
from .place import Place


def function(c: Context, instance: checked.Instance, shared: dict[checked.Variable, Place]) -> str:
    """The C function of an instance, written at its first use. Parameters are C variables of its own, but for those that are
    `shared`, which stand for the same place wherever it is applied."""
    if instance in c.named:
        return c.named[instance]
    name = c.named[instance] = c.unique("_".join(instance.path))
    for parameter in instance.parameters:
        c.places[parameter] = shared.get(parameter) or _static(c, instance, parameter)
    objects.declare(c, instance.externs)
    for node in instance.variables:
        c.places[node.symbol] = _static(c, instance, node.symbol)
    if instance.kind == "parser":
        states.function(c, instance, name)
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


def apply(c: Context, instance: checked.Instance, node: s.Call) -> None:
    """Apply an instance to arguments, by copy-in and copy-out (section 6.8)."""
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
    run, ended = states.application(name) if instance.kind == "parser" else (f"{name}();", "")
    c.emit(run)
    for parameter, to in targets:
        store(c, to, str(c.places[parameter]))
    if ended:
        c.emit(ended)
    calls.check_exit(c)


def _copied_in(
    c: Context, parameter: checked.Variable, argument: s.Expression, targets: list[tuple[checked.Variable, Target]]
) -> Value:
    """The value that a parameter begins with; notes where its last one goes."""
    if parameter.direction not in ("out", "inout"):
        return expressions.expression(c, argument)
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
