"""Checked statements as C."""

from __future__ import annotations

from switches.embedded import syntax as s
from switches.embedded.emit import assignment, calls, expressions
from switches.embedded.emit.context import Context
from switches.embedded.emit.ctypes import c_type, is_aggregate, is_wide
from switches.embedded.emit.place import Place
from switches.embedded.errors import unsupported
from switches.embedded.types import ApplyResult, Type


def block(c: Context, node: s.Block) -> None:
    for inside in node.statements:
        statement(c, inside)


def statement(c: Context, node: s.Statement) -> None:
    match node:
        case s.Block():
            with c.indented("{"):
                block(c, node)
        case s.Assignment():
            assignment.assign(c, assignment.target(c, node.target), node.value)
        case s.CallStatement():
            value = calls.call(c, node.call)
            if value.text and not isinstance(value.type, ApplyResult):
                c.emit(value.text + ";")
            if not isinstance(node.call.function, s.Member):
                calls.check_exit(c)
        case s.If():
            _if(c, node)
        case s.Switch():
            _switch(c, node)
        case s.Return() if node.value is not None:
            c.emit(f"return {expressions.expression(c, node.value).text};")
        case s.Return():
            c.emit(c.leave)
        case s.Exit():
            c.emit("exited = true;")
            c.emit(c.leave)
        case s.Variable():
            variable(c, node)


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
    if node.table is not None:
        selector = f"{calls.call(c, node.table).text}.action"
    else:
        if is_wide(node.selector.type):
            raise unsupported(node.position, f"switch over {node.selector.type}")
        selector = expressions.expression(c, node.selector).text
    with c.indented(f"switch ({selector}) {{"):
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
