"""Parsers and controls, checked anew for each instance: then what is constructed from is known (sections 13, 14 and 11.3)."""

from __future__ import annotations

from copy import deepcopy

from switches.embedded import checked
from switches.embedded import syntax as s
from switches.embedded.check import calls, expressions, functions, resolve, statements, states, tables
from switches.embedded.check.context import Checker
from switches.embedded.check.conversions import coerce
from switches.embedded.check.scope import Constant, Declaration, Scope, TypeName
from switches.embedded.errors import CompileError, Position, unsupported
from switches.embedded.types import BlockType, ExternType, Struct, TupleOf, Type, as_bits, bit_width

DEEPEST_PATH = 40  # instances within instances
LARGEST_SET = 1 << 16  # values


def instance(
    c: Checker, symbol: Declaration, path: tuple[str, ...], types: list[Type], given: list[s.Expression], scope: Scope,
    position: Position,
) -> checked.Instance:  # fmt: skip
    """An instance of a parser or control, constructed from arguments that are known when compiling."""
    node: s.Parser | s.Control = symbol.node
    if len(path) > DEEPEST_PATH:
        raise CompileError(position, f"{node.name} instantiates itself")
    if len(node.constructor) != len(given):
        raise CompileError(position, f"{node.name} is constructed from {len(node.constructor)} arguments")
    if len(node.type_parameters) != len(types):
        raise CompileError(position, f"{node.name} takes {len(node.type_parameters)} type arguments, and {len(types)} are given")
    inner = Scope(symbol.scope)
    inner.names.update({name: TypeName(type_) for name, type_ in zip(node.type_parameters, types, strict=True)})
    for parameter, argument in zip(node.constructor, given, strict=True):
        type_ = resolve.resolve(c, parameter.type, inner)
        if isinstance(type_, BlockType):
            inner.declare(parameter.name, _block_argument(type_, argument, scope), parameter.position)
            continue
        value = coerce(c, expressions.expression(c, argument, scope, type_), type_)
        if value.constant is None:
            raise CompileError(argument.position, "this must be known when compiling")
        inner.declare(parameter.name, Constant(type_, value.constant), parameter.position)
    c.instances[id(node)] = c.instances.get(id(node), 0) + 1
    kind = "parser" if isinstance(node, s.Parser) else "control"
    made = checked.Instance(kind, node.name, path, node.position, c.where.role)
    body_scope = Scope(inner)
    made.parameters = [functions.parameter(c, p, inner, body_scope, lasting=True) for p in node.parameters]
    with c.at(inside=kind, in_loop=False):
        _locals(c, made, deepcopy(node.locals), body_scope)
        if isinstance(node, s.Parser):
            made.states = states.states(c, deepcopy(node), body_scope)
        else:
            made.body = deepcopy(node.body)
            statements.block(c, made.body, body_scope)
    return made


def _block_argument(type_: BlockType, argument: s.Expression, scope: Scope) -> checked.Instance:
    """An instance that another is constructed from."""
    symbol = scope.get(argument.name, argument.position) if isinstance(argument, s.Name) else None
    if not isinstance(symbol, checked.Instance):
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
                instantiate(c, node, scope, made.path, made.externs)
            case s.Action():
                functions.action(c, node, scope, control_name(node, made.path), made.path)
            case s.Table():
                made.tables.append(tables.declare(c, node, scope, control_name(node, made.path), made.path))
            case s.ValueSet():
                _value_set(c, node, scope, made.path)
            case _:
                raise CompileError(node.position, "this cannot stand here")


def _value_set(c: Checker, node: s.ValueSet, scope: Scope, path: tuple[str, ...]) -> None:
    type_ = resolve.resolve(c, node.type, scope)
    fields = [f.type for f in type_.fields] if isinstance(type_, (Struct, TupleOf)) else [type_]
    if any(as_bits(f) is None for f in fields):
        raise unsupported(node.position, f"a value_set of {type_}")
    if sum(bit_width(f) for f in fields) > resolve.WIDEST:
        raise unsupported(node.position, f"a value_set of more than {resolve.WIDEST} bits")
    size = resolve.number(c, node.size, scope)
    if not 0 < size <= LARGEST_SET:
        raise CompileError(node.position, f"a value_set of {size} values is not possible")
    made = checked.ValueSet(node.name, control_name(node, path), path, fields, size, node.position)
    c.name_once("value_set", made.control_name, node.position)
    scope.declare(node.name, made, node.position)


def instantiate(
    c: Checker, node: s.Instantiation, scope: Scope, path: tuple[str, ...], externs: list[checked.ExternObject]
) -> None:
    """An extern object, or a parser or control within another."""
    symbol = scope.get(node.type.name, node.type.position)
    if not isinstance(symbol, Declaration):
        raise CompileError(node.position, f"{node.type.name} cannot be instantiated")
    made: checked.ExternObject | checked.Instance
    if isinstance(symbol.node, s.Extern):
        type_ = resolve.resolve(c, node.type, scope)
        assert isinstance(type_, ExternType)
        type_, given = calls.constructed(c, type_, node.arguments, scope, node.position)
        made = checked.ExternObject(type_, given, node.name, control_name(node, path), path, node.position)
        c.name_once(type_.name.removeprefix("direct_"), made.control_name, node.position)
        externs.append(made)
    elif isinstance(symbol.node, (s.Control, s.Parser)):
        types = [resolve.resolve(c, t, scope) for t in node.type.arguments]
        made = instance(c, symbol, (*path, node.name), types, node.arguments, scope, node.position)
    else:
        raise CompileError(node.position, f"{node.type.name} cannot be instantiated")
    scope.declare(node.name, made, node.position)


def control_name(node: s.Action | s.Table | s.Instantiation | s.ValueSet, path: tuple[str, ...]) -> str:
    """What the control plane calls a thing: its @name, or its path from the top-level control."""
    for annotation in node.annotations:
        if annotation.name == "name" and annotation.body:
            given = annotation.text()
            if not given or given.startswith("#") or any(ch.isspace() for ch in given):
                raise CompileError(annotation.position, f"@name({given!r}): a command cannot name this, use a name without spaces")
            return given[1:] if given.startswith(".") else ".".join((*path, given))
    return ".".join((*path, node.name))
