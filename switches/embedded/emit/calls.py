"""Calls of actions and functions, by copy-in and copy-out (section 6.8), and of what is built in."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from .. import checked
from .. import syntax as s
from ..types import BOOL, VOID, ApplyResult, Header, HeaderUnion, Stack
from . import blocks, expressions, externs, functions, tables
from .assignment import Target, invalidate, local, others_of, read, set_valid, store, target
from .context import DONE, Context, Value
from .ctypes import is_aggregate
from .place import Place


def call(c: Context, node: s.Call) -> Value:
    """The value of a call. What it does beside that is written now."""
    match node.callee:
        case checked.Action():
            call_action(c, node.callee, node.arguments, [])
            return DONE
        case checked.Function():
            return _function(c, node, node.callee)
        case checked.Apply(checked.Table() as table):
            return _apply_table(c, table)
        case checked.Apply(checked.Instance() as instance):
            blocks.apply(c, instance, node)
            return DONE
        case checked.BuiltIn():
            return _built_in(c, node)
    return externs.call(c, node)


def call_action(c: Context, action: checked.Action, arguments: list[s.Expression], data: list[str]) -> None:
    """Call an action; `data` are C values for the parameters behind the arguments."""
    passed, after = bind(c, action.parameters, arguments, shared=False)
    c.emit(f"{functions.action(c, action)}({', '.join([*passed, *data])});")
    c.emit_all(after)


def _function(c: Context, node: s.Call, function: checked.Function) -> Value:
    passed, after = bind(c, function.parameters, node.arguments, shared=True)
    text = f"{functions.function(c, function)}({', '.join(passed)})"
    if function.result == VOID:
        c.emit(text + ";")
        c.emit_all(after)
        return DONE
    writes = any(p.direction in ("out", "inout") for p in function.parameters)
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
            evaluations.append(partial(expressions.expression, c, argument))
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


# --- tables, headers and stacks


def _apply_table(c: Context, table: checked.Table) -> Value:
    """What apply() returns; where an action may have executed `exit`, that is looked at before anything else happens."""
    held = c.temporary("applied")
    c.emit(f"const struct outcome {held} = {tables.function(c, table)}();")
    c.emit(f"(void){held};")
    check_exit(c)
    return Value(held, ApplyResult(), True)


def check_exit(c: Context) -> None:
    """After something that may have executed `exit`: leave as well."""
    if c.exits:
        with c.indented("if (exited) {"):
            c.emit(c.leave)


def _built_in(c: Context, node: s.Call) -> Value:
    assert isinstance(node.function, s.Member)
    name, base = node.callee.name, node.function.base
    if name == "isValid":
        value = expressions.expression(c, base)
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
