"""Functions and actions: their parameters and bodies (section 10 and 14.1)."""

from __future__ import annotations

from copy import deepcopy

from .. import checked
from .. import syntax as s
from ..errors import CompileError, Position, unsupported
from ..types import VOID, ExternType, Integer, StringType, Type, TypeVariable
from ..walk import always_returns, walk
from . import resolve, statements
from .context import Checker
from .names import control_name
from .scope import Overloads, Scope, TypeName

PACKETS = ("packet_in", "packet_out")


def declare(c: Checker, node: s.Function, scope: Scope) -> None:
    """Enter a function, beside those of its name that take other numbers of arguments; its body is checked now."""
    present = scope.names.get(node.name)
    if isinstance(present, Overloads):
        if any(len(other.parameters) == len(node.parameters) for other in present.nodes):
            raise CompileError(node.position, f"{node.name} is declared twice")
        present.nodes.append(node)
    else:
        outer = scope.find(node.name)
        others = outer.nodes if isinstance(outer, Overloads) else []
        kept = [other for other in others if len(other.parameters) != len(node.parameters)]
        scope.declare(node.name, Overloads([node, *kept], scope), node.position)
    if node.body is not None and not node.type_parameters:
        function(c, node, scope, {}, node.position)


def function(c: Checker, node: s.Function, scope: Scope, bindings: dict[str, Type], position: Position) -> checked.Function:
    """A function with its type parameters bound, checked at first use."""
    for name in node.type_parameters:
        if isinstance(bindings.get(name, TypeVariable(name)), TypeVariable):
            raise CompileError(position, f"type parameter {name} of {node.name} is not known here: write {node.name}<…>(…)")
    key = id(node), tuple(bindings[name] for name in node.type_parameters)
    if key in c.functions:
        if c.functions[key].body is None:
            raise CompileError(position, f"function {node.name} calls itself")
        return c.functions[key]
    inner = Scope(scope)
    inner.names.update({name: TypeName(type_) for name, type_ in bindings.items()})
    made = checked.Function(node.name, node.position, resolve.resolve(c, node.result, inner))
    c.functions[key] = made
    body_scope = Scope(inner)
    made.parameters = [parameter(c, p, inner, body_scope) for p in node.parameters]
    body = deepcopy(node.body)
    assert body is not None
    if found := next((one for one in walk(body) if isinstance(one, s.Exit)), None):
        raise CompileError(found.position, "exit cannot stand in a function")
    if made.result != VOID and not always_returns(body):
        raise CompileError(node.position, f"function {node.name} does not return a value on all paths")
    with c.at(inside="function", result=made.result, role="", in_loop=False):
        statements.block(c, body, body_scope)
    made.body = body
    return made


def action(c: Checker, node: s.Action, scope: Scope) -> None:
    """Enter an action, and check its body."""
    name = control_name(c, node.name, node.annotations)
    made = checked.Action(node.name, name, c.where.path, node.position, node.annotations)
    scope.declare(node.name, made, node.position)
    inner = Scope(scope)
    made.parameters = [parameter(c, p, scope, inner) for p in node.parameters]
    body = deepcopy(node.body)
    with c.at(inside="action", result=VOID, in_loop=False):
        statements.block(c, body, inner)
    made.body = body


def parameter(c: Checker, node: s.Parameter, scope: Scope, inner: Scope, lasting: bool = False) -> checked.Variable:
    """Enter a parameter into the scope of the body."""
    type_ = resolve.resolve(c, node.type, scope)
    if isinstance(type_, (Integer, StringType)) or type_ == VOID or (isinstance(type_, ExternType) and not lasting):
        raise CompileError(node.position, f"a parameter of type {type_} is not possible here")
    if isinstance(type_, ExternType) and type_.name not in PACKETS:
        wording = f"a parameter of type {type_}: construct the control from it, as in control C()({type_} {node.name})"
        raise unsupported(node.position, wording)
    assignable = node.direction in ("out", "inout")
    made = checked.Variable(node.name, type_, assignable, node.direction, lasting, node.annotations, node.default)
    inner.declare(node.name, made, node.position)
    return made
