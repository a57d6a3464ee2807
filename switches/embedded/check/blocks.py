"""Parsers and controls, checked anew for each instance: then what is constructed from is known (sections 13, 14 and 11.3)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

from .. import checked
from .. import syntax as s
from ..errors import CompileError, Position, unsupported
from ..types import VOID, BlockType, ExternType, Struct, TupleOf, Type, as_bits, bit_width
from . import calls, expressions, functions, resolve, statements, states, tables
from .context import Checker
from .conversions import coerce
from .names import control_name
from .scope import Constant, Declaration, Scope, TypeName

DEEPEST_PATH = 40  # instances within instances
LARGEST_SET = 1 << 16  # values


def instance(
    c: Checker, symbol: Declaration, name: str, types: list[Type], given: list[s.Expression], scope: Scope, position: Position,
    annotations: Sequence[s.Annotation] = (),
) -> checked.Instance:  # fmt: skip
    """An instance of a parser or control, constructed from arguments that are known when compiling."""
    node: s.Parser | s.Control = symbol.node
    path = (*c.where.path, name)
    if len(path) > DEEPEST_PATH:
        raise CompileError(position, f"{node.name} instantiates itself")
    wanted = [calls.Parameter(p.name, VOID, "", default=deepcopy(p.default)) for p in node.constructor]
    given = calls.arranged(f"the constructor of {node.name}", wanted, s.Call(position, s.Name(position, node.name), given))
    if len(node.type_parameters) != len(types):
        raise CompileError(position, f"{node.name} takes {len(node.type_parameters)} type arguments, and {len(types)} are given")
    inner = Scope(symbol.scope)
    inner.names.update({name: TypeName(type_) for name, type_ in zip(node.type_parameters, types, strict=True)})
    for parameter, argument in zip(node.constructor, given, strict=True):
        type_ = resolve.resolve(c, parameter.type, inner)
        if isinstance(type_, (BlockType, ExternType)):
            inner.declare(parameter.name, _instance_argument(type_, argument, scope), parameter.position)
            continue
        value = coerce(c, expressions.expression(c, argument, scope, type_), type_)
        if value.constant is None:
            raise CompileError(argument.position, "this must be known when compiling")
        inner.declare(parameter.name, Constant(type_, value.constant), parameter.position)
    c.instances[id(node)] = c.instances.get(id(node), 0) + 1
    kind = "parser" if isinstance(node, s.Parser) else "control"
    made = checked.Instance(kind, node.name, path, node.position, c.where.role)
    c.made.append(made)
    body_scope = Scope(inner)
    made.parameters = [functions.parameter(c, p, inner, body_scope, lasting=True) for p in node.parameters]
    shown = tuple(control_name(c, name, annotations).split("."))
    with c.at(inside=kind, in_loop=False, path=path, shown=shown):
        _locals(c, made, deepcopy(node.locals), body_scope)
        if isinstance(node, s.Parser):
            made.states = states.states(c, deepcopy(node), body_scope)
        else:
            made.body = deepcopy(node.body)
            statements.block(c, made.body, body_scope)
    return made


def _instance_argument(
    type_: BlockType | ExternType, argument: s.Expression, scope: Scope
) -> checked.Instance | checked.ExternObject:  # fmt: skip
    """An instance that another is constructed from."""
    symbol = scope.get(argument.name, argument.position) if isinstance(argument, s.Name) else None
    fits = isinstance(symbol, checked.Instance) if isinstance(type_, BlockType) else getattr(symbol, "type", None) == type_
    if not isinstance(symbol, (checked.Instance, checked.ExternObject)) or not fits:
        raise CompileError(argument.position, f"an instance of {type_} is needed here, by its name")
    return symbol


def _locals(c: Checker, made: checked.Instance, nodes: list[s.Declaration], scope: Scope) -> None:
    """What is declared in a parser or control before its states or its apply block."""
    for node in nodes:
        match node:
            case s.Variable():
                statements.variable(c, node, scope, lasting=True)
                made.variables.append(node)
            case s.Constant():
                resolve.declare_constant(c, node, scope)
            case s.Instantiation():
                instantiate(c, node, scope, made.externs)
            case s.Action():
                functions.action(c, node, scope)
            case s.Table():
                made.tables.append(tables.declare(c, node, scope))
            case s.ValueSet():
                made.value_sets.append(_value_set(c, node, scope))
            case _:
                raise CompileError(node.position, "this cannot stand here")


def _value_set(c: Checker, node: s.ValueSet, scope: Scope) -> checked.ValueSet:
    type_ = resolve.resolve(c, node.type, scope)
    fields = [f.type for f in type_.fields] if isinstance(type_, (Struct, TupleOf)) else [type_]
    names = [f.name for f in type_.fields] if isinstance(type_, Struct) else []
    if any(as_bits(f) is None for f in fields):
        raise unsupported(node.position, f"a value_set of {type_}")
    if sum(bit_width(f) for f in fields) > resolve.WIDEST:
        raise unsupported(node.position, f"a value_set of more than {resolve.WIDEST} bits")
    size = resolve.number(c, node.size, scope)
    if not 0 < size <= LARGEST_SET:
        raise CompileError(node.position, f"a value_set of {size} values is not possible")
    name = control_name(c, node.name, node.annotations)
    made = checked.ValueSet(node.name, name, c.where.path, fields, names, size, node.position, node.annotations)
    c.name_once("value_set", made.control_name, node.position)
    scope.declare(node.name, made, node.position)
    return made


def instantiate(c: Checker, node: s.Instantiation, scope: Scope, externs: list[checked.ExternObject]) -> None:
    """An extern object, or a parser or control within another."""
    symbol = scope.get(node.type.name, node.type.position)
    if isinstance(symbol, TypeName) and isinstance(symbol.type, ExternType):  # a typedef of it
        symbol = c.top.get(symbol.type.name, node.type.position)
    if not isinstance(symbol, Declaration):
        raise CompileError(node.position, f"{node.type.name} cannot be instantiated")
    made: checked.ExternObject | checked.Instance
    if isinstance(symbol.node, s.Extern):
        type_ = resolve.resolve(c, node.type, scope)
        assert isinstance(type_, ExternType)
        type_, given = calls.constructed(c, type_, node.arguments, scope, node.position)
        name = control_name(c, node.name, node.annotations)
        made = checked.ExternObject(type_, given, node.name, name, c.where.path, node.position, node.annotations)
        c.name_once(type_.name.removeprefix("direct_"), made.control_name, node.position)
        externs.append(made)
    elif isinstance(symbol.node, (s.Control, s.Parser)):
        types = [resolve.resolve(c, t, scope) for t in node.type.arguments]
        made = instance(c, symbol, node.name, types, node.arguments, scope, node.position, node.annotations)
    else:
        raise CompileError(node.position, f"{node.type.name} cannot be instantiated")
    scope.declare(node.name, made, node.position)
