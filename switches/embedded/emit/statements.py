"""Checked statements as C."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import syntax as s
from ..errors import unsupported
from ..types import ApplyResult, Type
from . import assignment, calls, expressions, loops, trace
from .context import Context
from .ctypes import c_type, is_aggregate, is_wide
from .place import Place


def block(c: Context, node: s.Block) -> None:
    for inside in node.statements:
        statement(c, inside)


def statement(c: Context, node: s.Statement) -> None:
    if not isinstance(node, s.Constant):  # the checker has put its value where its name stood
        trace.statement(c, node)
        RULES[type(node)](c, node)


# --- one rule a kind of statement


def _block(c: Context, node: s.Block) -> None:
    with c.indented("{"):
        block(c, node)


def _assignment(c: Context, node: s.Assignment) -> None:
    to = assignment.target(c, node.target)
    if node.operator:
        c.old = assignment.read(to)
    assignment.assign(c, to, node.value)


def variable(c: Context, node: s.Variable) -> None:
    """A local variable, zero unless it has an initial value."""
    name = c.unique(node.name)
    type_: Type = node.symbol.type
    c.emit(f"{c_type(c, type_)} {name} = {'{0}' if is_aggregate(type_) else '0'};")
    c.places[node.symbol] = Place(name)
    start(c, node)


def start(c: Context, node: s.Variable) -> None:
    """Give a variable its initial value."""
    if node.initial is not None:
        type_: Type = node.symbol.type
        assignment.assign(c, assignment.Target(c.places[node.symbol], type_, type_, node.position), node.initial)


def _if(c: Context, node: s.If) -> None:
    condition = expressions.expression(c, node.condition).text
    with c.indented(f"if ({condition}) {{"):
        _body(c, node.then)
    if node.otherwise is not None:
        c.lines[-1] += " else {"
        c.depth += 1
        _body(c, node.otherwise)
        c.depth -= 1
        c.emit("}")


def _body(c: Context, node: s.Statement) -> None:
    if isinstance(node, s.Block):
        block(c, node)
    else:
        statement(c, node)


def _switch(c: Context, node: s.Switch) -> None:
    nothing = None
    if node.table is not None:
        selector, table = f"{calls.call(c, node.table).text}.action", node.table.callee.target
        nothing = len(table.actions) if table.profile is not None else None  # no action ran: no label is for that
    else:
        if is_wide(node.selector.type):
            raise unsupported(node.position, f"switch over {node.selector.type}")
        selector = expressions.expression(c, node.selector).text
    with c.indented(f"switch ({selector}) {{"):
        if nothing is not None:
            c.emit(f"case {nothing}: break;")
        for case in node.cases:
            label = "default:" if isinstance(case.label, s.DontCare) else f"case {_label(c, case.label)}:"
            if case.body is None:
                c.emit(label)
                continue
            with c.indented(label + " {"):
                block(c, case.body)
            c.emit("break;")
        if node.cases and node.cases[-1].body is None:
            c.emit("break;")


def _label(c: Context, node: s.Expression) -> str:
    assert node.constant is not None
    return str(node.constant) if node.type is None else expressions.constant(c, node.constant, node.type).text


def _call(c: Context, node: s.CallStatement) -> None:
    value = calls.call(c, node.call)
    if value.text and not isinstance(value.type, ApplyResult):
        c.emit(value.text + ";")
    if not isinstance(node.call.function, s.Member):
        calls.check_exit(c)


def _return(c: Context, node: s.Return) -> None:
    c.emit(c.leave if node.value is None else f"return {expressions.expression(c, node.value).text};")


def _exit(c: Context, node: s.Exit) -> None:
    c.emit("exited = true;")
    c.emit(c.leave)


RULES: dict[type, Callable[[Context, Any], None]] = {
    s.Block: _block, s.Assignment: _assignment, s.CallStatement: _call, s.If: _if, s.Switch: _switch, s.For: loops.loop,
    s.ForIn: loops.loop, s.Break: loops.leave, s.Continue: loops.leave, s.Return: _return, s.Exit: _exit, s.Variable: variable,
}  # fmt: skip
