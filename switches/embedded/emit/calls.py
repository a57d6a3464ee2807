"""Calls of actions and functions by copy-in and copy-out (section 6.8), a C function each, and of what is built in."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from .. import checked
from .. import syntax as s
from ..types import BOOL, VOID, Header, HeaderUnion, Stack
from . import expressions, statements
from .context import DONE, Context, Place, Value
from .ctypes import c_type, is_aggregate
from .expressions import Target, invalidate, local, others_of, read, set_valid, store, target


def _action(c: Context, node: s.Call) -> Value:
    call_action(c, node.callee, node.arguments, [])
    return DONE


def call_action(c: Context, action: checked.Action, arguments: list[s.Expression], data: list[str]) -> None:
    """Call an action; `data` are C values for the parameters behind the arguments."""
    passed, after = bind(c, action.parameters, arguments, shared=False)
    c.emit(f"{c_action(c, action)}({', '.join([*passed, *data])});")
    c.emit_all(after)


def _function(c: Context, node: s.Call) -> Value:
    function: checked.Function = node.callee
    passed, after = bind(c, function.parameters, node.arguments, shared=True)
    text = f"{c_function(c, function)}({', '.join(passed)})"
    if function.result == VOID:
        c.emit(text + ";")
        c.emit_all(after)
        return DONE
    writes = function.objects or any(p.direction in ("out", "inout") for p in function.parameters)
    if not writes and not is_aggregate(function.result):
        return Value(text, function.result)
    kept = expressions.held(c, Value(text, function.result))
    c.emit_all(after)
    return kept


# --- arguments


def bind(
    c: Context, parameters: list[checked.Variable], arguments: list[s.Expression], shared: bool
) -> tuple[list[str], list[str]]:
    """C arguments, and the lines that copy results back.

    What an out or inout parameter writes goes through a temporary. Headers, structs and stacks go by address instead where nothing
    could tell: `shared` says that what is called sees nothing of the program's state but its arguments.
    """
    after: list[str] = []
    evaluations: list[Callable[[], Value]] = []
    for i, (parameter, argument) in enumerate(zip(parameters, arguments, strict=False)):
        if parameter.direction not in ("out", "inout"):
            evaluations.append(partial(c.expression, argument))
            continue
        others = arguments[:i] + arguments[i + 1 :]
        direct = shared and parameter.direction == "inout" and is_aggregate(parameter.type)
        by_address = direct and not any(expressions.may_overlap(argument, other) for other in others)
        evaluations.append(partial(_written, c, parameter, argument, by_address, after))
    return [value.text for value in expressions.in_order(c, evaluations)], after


def _written(c: Context, parameter: checked.Variable, argument: s.Expression, by_address: bool, after: list[str]) -> Value:
    """The address that an out or inout parameter gets; adds to `after` what copies the result back."""
    if isinstance(argument, s.DontCare):
        return Value(f"&{local(c, 'unused', parameter.type)}", VOID, True)
    to = target(c, argument)
    if by_address and not to.others:
        return Value(f"&{to.place}", VOID, True)
    copy = local(c, "copy", parameter.type)
    if parameter.direction == "inout":
        c.emit(f"{copy} = {read(to).text};")
    after += copied_back(c, to, str(copy))
    return Value(f"&{copy}", VOID, True)


def copied_back(c: Context, to: Target, text: str) -> list[str]:
    """The lines that write a result to where it belongs."""

    def write() -> Value:
        store(c, to, text)
        return DONE

    return c.apart(write)[1]


# --- headers and stacks


def _built_in(c: Context, node: s.Call) -> Value:
    assert isinstance(node.function, s.Member)
    name, base = node.callee.name, node.function.base
    if name == "isValid":
        value = c.expression(base)
        inside = value.place or Place(value.text)
        headers = [inside.field(f.name) for f in base.type.fields] if isinstance(base.type, HeaderUnion) else [inside]
        return Value(f"({' || '.join(str(header.part('valid')) for header in headers) or 'false'})", BOOL)
    place = expressions.place(c, base)
    if isinstance(base.type, Header):
        set_valid(c, place, base.type, name == "setValid")
        if name == "setValid":
            invalidate(c, others_of(place, base))
        return DONE
    assert isinstance(base.type, Stack)
    count = min(int(node.arguments[0].constant or 0), base.type.size)
    c.emit(f"stack_{name}(&{place}.at, sizeof {place}.at[0], {base.type.size}, {count}, &{place.part('next_')});")
    return DONE


# --- what is called, written at its first use


def c_action(c: Context, action: checked.Action) -> str:
    """The C function of an action."""
    if action not in c.named:
        c.named[action] = c.unique("_".join((*action.path, action.name)))
        assert action.body is not None
        signature = f"static void {c.named[action]}({_parameters(c, action.parameters)})"
        with c.function(signature, f"action {action.control_name} ({action.position})"):
            c.step(action.position, f"action {action.control_name}")
            statements.block(c, action.body)
    return c.named[action]


def c_function(c: Context, function: checked.Function) -> str:
    """The C function of a function."""
    if function not in c.named:
        c.named[function] = c.unique(function.name)
        assert function.body is not None
        result = c_type(c, function.result)
        signature = f"static {result} {c.named[function]}({_parameters(c, function.parameters)})"
        with c.function(signature, f"function {function.name} ({function.position})"):
            statements.block(c, function.body)
            if function.result != VOID:
                c.emit("__builtin_unreachable();")
    return c.named[function]


def _parameters(c: Context, parameters: list[checked.Variable]) -> str:
    """C parameters: by address what is written."""
    written = []
    for parameter in parameters:
        name = c.unique(parameter.name)
        address = parameter.direction in ("out", "inout")
        written.append(f"{c_type(c, parameter.type)} {'*' if address else ''}{name}")
        c.places[parameter] = Place(f"(*{name})" if address else name)
    return ", ".join(written) or "void"


CALLS: dict[type, Callable[[Context, s.Call], Value]] = {
    checked.Action: _action, checked.Function: _function, checked.BuiltIn: _built_in,
}  # fmt: skip
