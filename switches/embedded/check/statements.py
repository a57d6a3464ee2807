"""Statements (section 12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import checked
from .. import syntax as s
from ..errors import CompileError, unsupported
from ..types import STRING, VOID, Bits, ExternType, Integer, Stack, TupleOf, Type, as_bits
from . import expressions, resolve
from .context import Checker, Scope
from .values import coerce


def block(c: Checker, node: s.Block, scope: Scope) -> None:
    inner = Scope(scope)
    for inside in node.statements:
        c.statement(inside, inner)


# --- one rule a kind of statement


def _assignment(c: Checker, node: s.Assignment, scope: Scope) -> None:
    node.target = expressions.place(c, node.target, scope)
    type_ = node.target.type
    value = node.value
    if node.operator:
        old = expressions.typed(s.Old(node.target.position), type_)
        value = s.Binary(node.position, node.operator, old, value)
    node.value = coerce(c, c.expression(value, scope, type_), type_)


def _for(c: Checker, node: s.For, scope: Scope) -> None:
    inner = Scope(scope)
    for one in node.first:
        c.statement(one, inner)
    node.condition = expressions.condition(c, node.condition, inner)
    with c.at(in_loop=True):
        c.statement(node.body, Scope(inner))
    for one in node.then:
        c.statement(one, inner)


def _for_in(c: Checker, node: s.ForIn, scope: Scope) -> None:
    inner = Scope(scope)
    variable(c, node.variable, inner)
    type_ = node.variable.symbol.type
    node.low = c.expression(node.low, scope, type_)
    if node.high is None:
        if not isinstance(node.low.type, Stack) or node.low.type.element != type_:
            raise CompileError(
                node.low.position, f"a loop goes over low .. high, or over a stack of {type_}; this is {node.low.type}"
            )
    else:
        if not isinstance(type_, Bits) or type_.width > 64:
            raise unsupported(node.variable.position, f"a loop from low to high with a variable of type {type_}")
        node.low, node.high = coerce(c, node.low, type_), coerce(c, c.expression(node.high, scope, type_), type_)
    with c.at(in_loop=True):
        c.statement(node.body, Scope(inner))


def variable(c: Checker, node: s.Variable, scope: Scope, lasting: bool = False) -> None:
    """Enter a variable. `lasting`: it belongs to a parser or control."""
    type_ = resolve.resolve(c, node.type, scope)
    parts = type_.members if isinstance(type_, TupleOf) else (type_,)
    if any(isinstance(part, (Integer, ExternType)) or part in (VOID, STRING) for part in parts):
        raise unsupported(node.position, f"a variable of type {type_}")
    if node.initial is not None:
        node.initial = coerce(c, c.expression(node.initial, scope, type_), type_)
    node.symbol = checked.Variable(node.name, type_, lasting=lasting)
    scope.declare(node.name, node.symbol, node.position)


def _return(c: Checker, node: s.Return, scope: Scope) -> None:
    result = c.where.result
    if c.where.inside == "parser":
        raise CompileError(node.position, "this cannot stand in a parser")
    if result == VOID:
        if node.value is not None:
            raise CompileError(node.position, "nothing can be returned here")
        return
    if node.value is None:
        raise CompileError(node.position, f"a value of {result} must be returned")
    node.value = coerce(c, c.expression(node.value, scope, result), result)


def _switch(c: Checker, node: s.Switch, scope: Scope) -> None:
    if c.where.inside == "action":
        raise CompileError(node.position, "switch cannot stand in an action (simple_switch has none there)")
    for case in node.cases[:-1]:
        if isinstance(case.label, s.DontCare):
            c.warn(case.position, "a label follows the default label")
    selector = node.selector
    if isinstance(selector, s.Member) and selector.name == "action_run" and isinstance(selector.base, s.Call):
        applied = c.expression(selector.base, scope)
        assert isinstance(applied, s.Call)
        node.table = applied
        labels = [_action_label(case.label, applied) for case in node.cases]
    else:
        node.selector = c.expression(selector, scope)
        if as_bits(node.selector.type) is None:
            raise unsupported(node.position, f"switch over {node.selector.type}")
        labels = [_value_label(c, case.label, node.selector.type, scope) for case in node.cases]
    given = [label.constant if isinstance(label, s.Known) else None for label in labels]
    if len(set(given)) != len(given):
        raise CompileError(node.position, "a switch label occurs twice")
    for case, label in zip(node.cases, labels, strict=True):
        case.label = label
        if case.body is not None:
            block(c, case.body, scope)


def _action_label(label: s.Expression, applied: s.Call) -> s.Expression:
    if isinstance(label, s.DontCare):
        return label
    table = applied.callee.target if isinstance(applied.callee, checked.Apply) else None
    if not isinstance(table, checked.Table):
        raise CompileError(label.position, "action_run belongs to the apply() of a table")
    names = [listed.action.name for listed in table.actions]
    if not isinstance(label, s.Name) or label.name not in names:
        raise CompileError(label.position, f"this is no action of table {table.name}")
    found = s.Known(label.position)
    found.constant = names.index(label.name)
    return found


def _value_label(c: Checker, label: s.Expression, type_: Type, scope: Scope) -> s.Expression:
    if isinstance(label, s.DontCare):
        return label
    found = coerce(c, c.expression(label, scope), type_)
    if found.constant is None:
        raise CompileError(label.position, "a label must be known when compiling")
    return found


def _call(c: Checker, node: s.CallStatement, scope: Scope) -> None:
    node.call = c.expression(node.call, scope)  # type: ignore[assignment]


def _if(c: Checker, node: s.If, scope: Scope) -> None:
    node.condition = expressions.condition(c, node.condition, scope)
    c.statement(node.then, Scope(scope))
    if node.otherwise is not None:
        c.statement(node.otherwise, Scope(scope))


def _leave_loop(c: Checker, node: s.Break | s.Continue, scope: Scope) -> None:
    if not c.where.in_loop:
        raise CompileError(node.position, "this belongs in a loop")


def _exit(c: Checker, node: s.Exit, scope: Scope) -> None:
    if c.where.inside == "parser":
        raise CompileError(node.position, "this cannot stand in a parser")
    c.exits = True


RULES: dict[type, Callable[[Checker, Any, Scope], None]] = {
    s.Block: block, s.Assignment: _assignment, s.CallStatement: _call, s.If: _if, s.Switch: _switch, s.For: _for, s.ForIn: _for_in,
    s.Break: _leave_loop, s.Continue: _leave_loop, s.Return: _return, s.Exit: _exit, s.Variable: variable,
    s.Constant: resolve.declare_constant,
}  # fmt: skip
