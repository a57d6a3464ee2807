"""Parsers and controls, checked anew for each instance: then what is constructed from is known (sections 13, 14 and 11.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

from .. import checked
from .. import syntax as s
from ..errors import CompileError, Position, unsupported
from ..types import VOID, BlockType, ExternType, Struct, TupleOf, Type, as_bits, bit_width
from . import calls, resolve, statements
from .context import Checker, Constant, Declaration, Scope, TypeName, Where
from .expressions import ANY, SELECT, pattern
from .values import coerce

DEEPEST_PATH = 40  # instances within instances
LARGEST_SET = 1 << 16  # values
LOCAL = (s.Constant, s.Instantiation, s.Action, s.Table, s.ValueSet)  # what a block may declare, beside variables


def instance(
    c: Checker, symbol: Declaration, name: str, types: list[Type], given: list[s.Expression], scope: Scope, position: Position,
    annotations: Sequence[s.Annotation] = (),
) -> checked.Instance:  # fmt: skip
    """An instance of a parser or control, constructed from arguments that are known when compiling.

    Where it takes extern objects at apply(), its body is checked when it is first applied: then they are known.
    """
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
    kind = "parser" if isinstance(node, s.Parser) else "control"
    made = checked.Instance(kind, node.name, path, node.position, c.where.role)
    where = replace(c.where, inside=kind, in_loop=False, path=path, shown=tuple(c.control_name(name, annotations).split(".")))
    for parameter, argument in zip(node.constructor, given, strict=True):
        type_ = resolve.resolve(c, parameter.type, inner)
        if isinstance(type_, (BlockType, ExternType)):
            with c.at(path=where.path, shown=where.shown):
                inner.declare(parameter.name, _instance_argument(c, made, type_, argument, parameter, scope), parameter.position)
            continue
        value = coerce(c, c.expression(argument, scope, type_), type_)
        if value.constant is None:
            raise CompileError(argument.position, "this must be known when compiling")
        inner.declare(parameter.name, Constant(type_, value.constant), parameter.position)
    c.instances[id(node)] = c.instances.get(id(node), 0) + 1
    c.made.append(made)
    body_scope = Scope(inner)
    made.parameters = [calls.parameter(c, p, inner, body_scope, lasting=True) for p in node.parameters]
    if any(calls.is_object(p.type) for p in made.parameters):
        c.awaited[made] = partial(_body, c, made, node, body_scope, where)
    else:
        _body(c, made, node, body_scope, where, {})
    return made


def _body(
    c: Checker,
    made: checked.Instance,
    node: s.Parser | s.Control,
    scope: Scope,
    where: Where,
    objects: dict[str, checked.ExternObject],
) -> None:
    """What an instance consists of; `objects` are those that it takes at apply()."""
    scope.names.update(objects)
    with c.at(**vars(where)):
        _locals(c, made, deepcopy(node.locals), scope)
        if isinstance(node, s.Parser):
            made.states = states(c, deepcopy(node), scope)
        else:
            made.body = deepcopy(node.body)
            c.statement(made.body, scope)


def _instance_argument(
    c: Checker, made: checked.Instance, type_: Type, argument: s.Expression, parameter: s.Parameter, scope: Scope
) -> checked.Instance | checked.ExternObject:  # fmt: skip
    """What an instance that is being `made` is constructed from: one by its name, or one made here, and named by the parameter."""
    symbol = scope.get(argument.name, argument.position) if isinstance(argument, s.Name) else None
    if isinstance(argument, s.Call) and isinstance(argument.function, s.Name) and isinstance(type_, ExternType):
        of = s.NamedType(argument.position, argument.function.name, argument.type_arguments)
        symbol = c.declare(s.Instantiation(argument.position, of, argument.arguments, parameter.name, []), Scope(scope))
        made.externs += [symbol] if isinstance(symbol, checked.ExternObject) else []
    fits = isinstance(symbol, checked.Instance) if isinstance(type_, BlockType) else getattr(symbol, "type", None) == type_
    if not isinstance(symbol, (checked.Instance, checked.ExternObject)) or not fits:
        raise CompileError(argument.position, f"an instance of {type_} is needed here, by its name")
    return symbol


def _locals(c: Checker, made: checked.Instance, nodes: list[s.Declaration], scope: Scope) -> None:
    """What is declared in a parser or control before its states or its apply block."""
    for node in nodes:
        if isinstance(node, s.Variable):
            statements.variable(c, node, scope, lasting=True)
            made.variables.append(node)
            continue
        if not isinstance(node, LOCAL):
            raise CompileError(node.position, "this cannot stand here")
        match c.declare(node, scope):
            case checked.ExternObject() as one:
                made.externs.append(one)
            case checked.Table() as table:
                made.tables.append(table)
            case checked.ValueSet() as values:
                made.value_sets.append(values)


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
    name = c.control_name(node.name, node.annotations)
    made = checked.ValueSet(node.name, name, c.where.path, fields, names, size, node.position, node.annotations)
    c.name_once("value_set", made.control_name, node.position)
    scope.declare(node.name, made, node.position)
    return made


def _instantiate(c: Checker, node: s.Instantiation, scope: Scope) -> checked.ExternObject | checked.Instance:
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
        name = c.control_name(node.name, node.annotations)
        made = checked.ExternObject(type_, given, node.name, name, c.where.path, node.position, node.annotations)
        c.name_once(type_.name.removeprefix("direct_"), made.control_name, node.position)
    elif isinstance(symbol.node, (s.Control, s.Parser)):
        types = [resolve.resolve(c, t, scope) for t in node.type.arguments]
        made = instance(c, symbol, node.name, types, node.arguments, scope, node.position, node.annotations)
    else:
        raise CompileError(node.position, f"{node.type.name} cannot be instantiated")
    scope.declare(node.name, made, node.position)
    return made


DECLARATIONS: dict[type, Callable[[Checker, Any, Scope], Any]] = {s.Instantiation: _instantiate, s.ValueSet: _value_set}


# --- the states of a parser, and where they lead


END = ("accept", "reject")


def states(c: Checker, node: s.Parser, scope: Scope) -> list[checked.State]:
    names = [state.name for state in node.states]
    if "start" not in names:
        raise CompileError(node.position, f"parser {node.name} has no state start")
    if reserved := [state for state in node.states if state.name in END]:
        raise CompileError(reserved[0].position, f"state {reserved[0].name} is built in")
    if not _ends(node):
        raise CompileError(node.position, f"parser {node.name} never reaches accept")
    if len(set(names)) != len(names):
        raise CompileError(node.position, f"parser {node.name} has two states of one name")
    return [_state(c, state, names, Scope(scope)) for state in node.states]


def _state(c: Checker, node: s.State, names: list[str], scope: Scope) -> checked.State:
    made = checked.State(node.name, node.position, node.statements)
    for inside in node.statements:
        c.statement(inside, scope)
    if isinstance(node.transition, s.Select):
        _select(c, node.transition, made, names, scope)
    else:
        made.next = _target(c, node.transition or "reject", names, node.position)
    return made


def _select(c: Checker, node: s.Select, made: checked.State, names: list[str], scope: Scope) -> None:
    made.select = [c.expression(one, scope) for one in node.expressions]
    for one in made.select:
        if as_bits(one.type) is None:
            raise unsupported(one.position, f"select over {one.type}")
    complete = False
    for case in node.cases:
        keys = _keys(c, case, made.select, scope)
        if complete:
            c.warn(case.position, "unreachable case")
        complete = complete or all(key == ANY for key in keys)
        made.cases.append(checked.Case(keys, _target(c, case.state, names, case.position), case.position))


def _keys(c: Checker, case: s.SelectCase, selected: list[s.Expression], scope: Scope) -> list[checked.Pattern]:
    if len(case.keys) == 1 and isinstance(case.keys[0], s.DontCare):
        return [ANY] * len(selected)
    values = scope.find(case.keys[0].name) if len(case.keys) == 1 and isinstance(case.keys[0], s.Name) else None
    if isinstance(values, checked.ValueSet):
        if values.fields != [one.type for one in selected]:
            raise CompileError(case.position, f"the values of {values.name} are of other types than what select looks at")
        return [checked.Pattern("set", values=values)]
    if len(case.keys) != len(selected):
        raise CompileError(case.position, f"select has {len(selected)} keys, and this case has {len(case.keys)}")
    return [pattern(c, key, SELECT, one.type, scope) for key, one in zip(case.keys, selected, strict=True)]


def _target(c: Checker, name: str, names: list[str], position: Position) -> str:
    if name not in names and name not in END:
        raise CompileError(position, f"there is no state {name}")
    if name == "reject":
        c.warn(position, "simple_switch has no reject: the packet is accepted (verify sets an error)")
    return name


def _ends(parser: s.Parser) -> bool:
    """True if transitions lead from start to accept or reject, or a state has none (which rejects)."""
    transitions = {state.name: state.transition for state in parser.states}
    reached, waiting = set(), ["start"]
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        transition = transitions.get(name)
        if transition is None:
            return True
        waiting += [transition] if isinstance(transition, str) else [case.state for case in transition.cases]
    return False
