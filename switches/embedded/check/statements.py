"""Statements (section 12)."""

from __future__ import annotations

from switches.embedded import checked
from switches.embedded import syntax as s
from switches.embedded.check import calls, expressions, resolve
from switches.embedded.check.context import Checker
from switches.embedded.check.conversions import coerce
from switches.embedded.check.scope import Scope
from switches.embedded.errors import CompileError, unsupported
from switches.embedded.types import STRING, VOID, ExternType, Integer, TupleOf, Type, as_bits


def block(c: Checker, node: s.Block, scope: Scope) -> None:
    inner = Scope(scope)
    for inside in node.statements:
        statement(c, inside, inner)


def statement(c: Checker, node: s.Statement, scope: Scope) -> None:
    """Check a statement, and write into it what was found."""
    match node:
        case s.Block():
            block(c, node, scope)
        case s.Assignment():
            node.target = expressions.place(c, node.target, scope)
            type_ = node.target.type
            node.value = coerce(c, expressions.expression(c, node.value, scope, type_), type_)
        case s.CallStatement():
            node.call = calls.call(c, node.call, scope)  # type: ignore[assignment]
        case s.If():
            node.condition = expressions.condition(c, node.condition, scope)
            statement(c, node.then, Scope(scope))
            if node.otherwise is not None:
                statement(c, node.otherwise, Scope(scope))
        case s.Switch():
            _switch(c, node, scope)
        case s.Return():
            _return(c, node, scope)
        case s.Exit():
            if c.where.inside == "parser":
                raise CompileError(node.position, "this cannot stand in a parser")
            c.exits = True
        case s.Variable():
            variable(c, node, scope)
        case s.Constant():
            resolve.declare_constant(c, node, scope)
        case _:
            raise CompileError(node.position, "a statement is needed here")


def variable(c: Checker, node: s.Variable, scope: Scope, lasting: bool = False) -> None:
    """Enter a variable. `lasting`: it belongs to a parser or control."""
    type_ = resolve.resolve(c, node.type, scope)
    if isinstance(type_, (Integer, TupleOf, ExternType)) or type_ in (VOID, STRING):
        raise unsupported(node.position, f"a variable of type {type_}")
    if node.initial is not None:
        node.initial = coerce(c, expressions.expression(c, node.initial, scope, type_), type_)
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
    node.value = coerce(c, expressions.expression(c, node.value, scope, result), result)


def _switch(c: Checker, node: s.Switch, scope: Scope) -> None:
    if c.where.inside == "action":
        raise CompileError(node.position, "switch cannot stand in an action (simple_switch has none there)")
    for case in node.cases[:-1]:
        if isinstance(case.label, s.DontCare):
            c.warn(case.position, "a label follows the default label")
    selector = node.selector
    if isinstance(selector, s.Member) and selector.name == "action_run" and isinstance(selector.base, s.Call):
        applied = expressions.expression(c, selector.base, scope)
        assert isinstance(applied, s.Call)
        node.table = applied
        labels = [_action_label(case.label, applied) for case in node.cases]
    else:
        node.selector = expressions.expression(c, selector, scope)
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
    found = coerce(c, expressions.expression(c, label, scope), type_)
    if found.constant is None:
        raise CompileError(label.position, "a label must be known when compiling")
    return found
