"""Calls, with their arguments in the order and of the types of the parameters; functions and actions (sections 6.8, 10, 14.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from .. import checked
from .. import syntax as s
from ..advice import advice
from ..errors import CompileError, Position
from ..types import (
    BOOL,
    VOID,
    ApplyResult,
    ExternType,
    Header,
    HeaderUnion,
    Integer,
    Stack,
    StringType,
    Type,
    TypeVariable,
)  # fmt: skip
from ..walk import always_returns, walk
from . import architecture, expressions, resolve
from .context import Checker, Declaration, Overloads, Scope, TypeName
from .values import coerce

PACKETS = ("packet_in", "packet_out")


@dataclass
class Parameter:
    """Of what is called; `type` may have type variables in it. A parameter that is `known` takes what is known when compiling."""

    name: str
    type: Type
    direction: str
    known: bool = False
    default: s.Expression | None = None
    optional: bool = False


def call(c: Checker, node: s.Call, scope: Scope, expected: Type | None) -> s.Expression:
    function = node.function
    if isinstance(function, s.Member):
        return _method(c, node, function, scope)
    if not isinstance(function, s.Name):
        raise CompileError(node.position, "this cannot be called")
    symbol = scope.get(function.name, function.position)
    if isinstance(symbol, checked.Action):
        return _action(c, node, symbol, scope)
    if isinstance(symbol, Overloads):
        return _function(c, node, symbol, scope)
    raise CompileError(node.position, f"{function.name} cannot be called")


def _result(node: s.Call, callee: object, type_: Type) -> s.Call:
    node.callee, node.type = callee, type_
    return node


# --- arguments


def arguments(
    c: Checker, name: str, parameters: Sequence[Parameter], node: s.Call, scope: Scope, bindings: dict[str, Type] | None = None
) -> list[s.Expression]:
    """The arguments in the order of the parameters, each of its type; binds type variables."""
    bindings = {} if bindings is None else bindings
    given = arranged(name, parameters, node)
    found = [_argument(c, p, a, scope, bindings) for p, a in zip(parameters, given, strict=True)]
    return [_settled(c, p, a, bindings) for p, a in zip(parameters, found, strict=True)]


def _settled(c: Checker, parameter: Parameter, node: s.Expression, bindings: dict[str, Type]) -> s.Expression:
    """An argument at its type, now that all type variables are bound: a later one may have given a number its width."""
    if resolve.is_open(parameter.type, bindings):
        return node
    type_ = resolve.bound(parameter.type, bindings)
    if isinstance(node, s.DontCare):
        node.type = type_
        return node
    return coerce(c, node, type_)


def arranged(name: str, parameters: Sequence[Parameter], node: s.Call) -> list[s.Expression]:
    """The arguments as given, in the order of the parameters (section 6.8)."""
    given = node.arguments
    if any(isinstance(a, s.NamedItem) for a in given):
        named = {a.name: a.value for a in given if isinstance(a, s.NamedItem)}
        if len(named) != len(given):
            raise CompileError(node.position, "either all arguments are given by name, or none")
        if unknown := set(named) - {p.name for p in parameters}:
            raise CompileError(node.position, f"{name} has no parameter {sorted(unknown)[0]}")
    else:
        named = {p.name: a for p, a in zip(parameters, given, strict=False)}
    defaults = {p.name: p.default for p in parameters if p.default is not None}
    optional: dict[str, s.Expression] = {p.name: s.DontCare(node.position) for p in parameters if p.optional}
    filled = optional | defaults | named
    if len(given) > len(parameters) or len(filled) != len(parameters):
        raise CompileError(node.position, f"{name} takes {len(parameters)} arguments, and {len(given)} are given")
    return [filled[p.name] for p in parameters]


def _argument(c: Checker, parameter: Parameter, node: s.Expression, scope: Scope, bindings: dict[str, Type]) -> s.Expression:
    wanted = resolve.bound(parameter.type, bindings)
    if isinstance(node, s.DontCare):
        if parameter.direction != "out" and not parameter.optional:
            raise CompileError(node.position, f"parameter {parameter.name} needs a value")
        node.type = wanted
        return node
    found: s.Expression
    if isinstance(node, s.Name) and isinstance(symbol := scope.find(node.name), checked.ExternObject) and is_object(wanted):
        node.symbol, node.type = symbol, symbol.type
        found = node
    elif parameter.direction in ("out", "inout"):
        found = expressions.place(c, node, scope)
    else:
        found = c.expression(node, scope, None if resolve.is_open(wanted, {}) else wanted)
    resolve.bind(parameter.type, found.type, bindings)
    wanted = resolve.bound(parameter.type, bindings)
    if not resolve.is_open(wanted, {}):
        if parameter.direction in ("out", "inout") and found.type != wanted:
            raise CompileError(node.position, f"this is {found.type}, where {wanted} is needed")
        found = coerce(c, found, wanted)
    if parameter.known and found.constant is None:
        raise CompileError(node.position, "this argument must be known when compiling")
    return found


def of_variables(parameters: list[checked.Variable]) -> list[Parameter]:
    return [Parameter(p.name, p.type, p.direction, default=deepcopy(p.default)) for p in parameters]


def declared(c: Checker, node: s.Function, scope: Scope) -> list[Parameter]:
    """The parameters of a function as declared. Of an extern function, those without a direction are known when compiling."""
    return [
        Parameter(
            p.name, resolve.resolve(c, p.type, scope), p.direction, node.body is None and not p.direction, p.default, p.optional
        )
        for p in node.parameters
    ]


# --- actions and functions


def _action(c: Checker, node: s.Call, action: checked.Action, scope: Scope) -> s.Call:
    if c.where.inside == "parser":
        raise CompileError(node.position, f"action {action.name} cannot be called in a parser")
    if action.body is None:
        raise CompileError(node.position, f"action {action.name} calls itself")
    node.arguments = arguments(c, action.name, of_variables(action.parameters), node, scope)
    for inner in walk(node.arguments):
        if isinstance(inner, s.Call) and isinstance(inner.callee, checked.Apply):
            raise CompileError(inner.position, "a table cannot be applied in an action's argument")
    return _result(node, action, VOID)


def _chosen(name: str, nodes: list[s.Function], node: s.Call) -> s.Function:
    """The function that takes so many arguments."""
    n = len(node.arguments)
    for function in nodes:
        least = sum(p.default is None and not p.optional for p in function.parameters)
        if least <= n <= len(function.parameters):
            return function
    takes = " or ".join(map(str, sorted({len(function.parameters) for function in nodes})))
    raise CompileError(node.position, f"{name} takes {takes} arguments, and {n} are given")


def _function(c: Checker, node: s.Call, overloads: Overloads, scope: Scope) -> s.Call:
    name = node.function.name  # type: ignore[union-attr]
    function = _chosen(name, overloads.nodes, node)
    bindings = _type_arguments(c, name, function, node, scope)
    inner = _open_scope(overloads.scope, function.type_parameters)
    parameters = declared(c, function, inner)
    node.arguments = arguments(c, name, parameters, node, scope, bindings)
    if function.body is None:
        result = resolve.bound(resolve.resolve(c, function.result, inner), bindings)
        found = _result(node, checked.ExternCall(name), result)
        architecture.check_call(c, found)
        return found
    objects = _objects(parameters, node.arguments)
    node.arguments = [a for p, a in zip(parameters, node.arguments, strict=True) if p.name not in objects]
    made = specialized(c, function, overloads.scope, bindings, objects, node.position)
    return _result(node, made, made.result)


def _type_arguments(c: Checker, name: str, function: s.Function, node: s.Call, scope: Scope) -> dict[str, Type]:
    given = [resolve.resolve(c, t, scope) for t in node.type_arguments]
    if given and len(given) != len(function.type_parameters):
        raise CompileError(
            node.position, f"{name} takes {len(function.type_parameters)} type arguments, and {len(given)} are given"
        )
    pairs = zip(function.type_parameters, given, strict=False)
    return {parameter: type_ for parameter, type_ in pairs if type_ != TypeVariable("_")}


def _open_scope(scope: Scope, parameters: list[str]) -> Scope:
    """A scope in which type parameters stand for themselves."""
    return resolve.bound_scope(scope, parameters, tuple(TypeVariable(name) for name in parameters))


# --- methods


def _method(c: Checker, node: s.Call, function: s.Member, scope: Scope) -> s.Call:
    symbol = scope.find(function.base.name) if isinstance(function.base, s.Name) else None
    if function.name == "apply":
        return _apply(c, node, function, symbol, scope)
    if isinstance(symbol, checked.ExternObject):
        return _extern_method(c, node, function.name, symbol.type, symbol, scope)
    function.base = c.expression(function.base, scope)
    base = function.base.type
    if isinstance(base, ExternType):
        assert isinstance(function.base, s.Name)
        return _extern_method(c, node, function.name, base, function.base.symbol, scope)
    of_validity = {Header: ("isValid", "setValid", "setInvalid"), HeaderUnion: ("isValid",)}
    if function.name in of_validity.get(type(base), ()):
        if node.arguments:
            raise CompileError(node.position, f"{function.name} takes no arguments")
        if function.name == "isValid":
            return _result(node, checked.BuiltIn(function.name), BOOL)
        return _changes(node, function)
    if isinstance(base, Stack) and function.name in ("push_front", "pop_front"):
        if c.where.inside == "parser":
            raise CompileError(node.position, f"{function.name} cannot be used in a parser")
        count = resolve.number(c, node.arguments[0], scope) if len(node.arguments) == 1 else 0
        if not count > 0:
            raise CompileError(node.position, f"{function.name} takes one positive number, known when compiling")
        node.arguments[0].constant = count
        return _changes(node, function)
    names = list(of_validity.get(type(base), ())) or ["push_front", "pop_front"]
    raise CompileError(node.position, f"{base} has no method {function.name}{advice(function.name, names)}")


def _changes(node: s.Call, function: s.Member) -> s.Call:
    """A method that changes the header or stack that it is called on."""
    if not expressions.is_place(function.base):
        raise CompileError(function.base.position, "this cannot be assigned to")
    return _result(node, checked.BuiltIn(function.name), VOID)


def _apply(c: Checker, node: s.Call, function: s.Member, symbol: object, scope: Scope) -> s.Call:
    if c.where.inside == "action":
        raise CompileError(node.position, "a table or control cannot be applied in an action")
    if isinstance(symbol, checked.Table):
        if node.arguments:
            raise CompileError(node.position, f"apply() of table {symbol.name} takes no arguments")
        return _result(node, checked.Apply(symbol), ApplyResult())
    if isinstance(symbol, Declaration) and isinstance(symbol.node, (s.Control, s.Parser)):
        name = symbol.node.name
        symbol = c.declare(s.Instantiation(node.position, s.NamedType(node.position, name), [], name, []), Scope(scope))
    if symbol is None and isinstance(function.base, s.Name):
        scope.get(function.base.name, function.base.position)  # says that it is not declared
    if not isinstance(symbol, checked.Instance):
        raise CompileError(node.position, "only tables, controls and parsers are applied")
    if c.where.inside != symbol.kind:
        raise CompileError(node.position, f"a {symbol.kind} cannot be applied in a {c.where.inside}")
    node.arguments = arguments(c, symbol.name, of_variables(symbol.parameters), node, scope)
    symbol.applied.append(node)
    _take_objects(c, symbol, node)
    return _result(node, checked.Apply(symbol), VOID)


def _take_objects(c: Checker, instance: checked.Instance, node: s.Call) -> None:
    """The extern objects that an instance is applied to: the same ones everywhere, as it is one piece of the switch."""
    objects = _objects(instance.parameters, node.arguments)
    for name, one in _objects(instance.parameters, instance.applied[0].arguments).items():
        if objects[name] is not one:
            raise CompileError(
                node.position, f"{instance.name} is applied to {one.name} and to {objects[name].name}: make an instance for each"
            )
    if instance in c.awaited:
        c.awaited.pop(instance)(objects)


def _objects(parameters: Sequence[Parameter | checked.Variable], given: list[s.Expression]) -> dict[str, checked.ExternObject]:
    """The extern objects among arguments, by the parameters' names."""
    return {p.name: a.symbol for p, a in zip(parameters, given, strict=True) if isinstance(a, s.Name) and is_object(p.type)}


def _extern_method(
    c: Checker, node: s.Call, name: str, type_: ExternType, object_: checked.ExternObject | checked.Variable, scope: Scope
) -> s.Call:
    """A method of an extern object or packet, as its declaration has it."""
    declaration: Declaration = c.top.get(type_.name, node.position)
    methods = [m for m in declaration.node.methods if m.name == name != type_.name]
    if not methods:
        near = advice(name, [m.name for m in declaration.node.methods])
        raise CompileError(node.position, f"{type_.name} has no method {name}{near}")
    method = _chosen(name, methods, node)
    outer = resolve.bound_scope(declaration.scope, declaration.node.type_parameters, type_.arguments)
    bindings = _type_arguments(c, name, method, node, scope)
    inner = _open_scope(outer, method.type_parameters)
    node.arguments = arguments(c, name, declared(c, method, inner), node, scope, bindings)
    result = resolve.bound(resolve.resolve(c, method.result, inner), bindings)
    found = _result(node, checked.ExternCall(name, object_), result)
    architecture.check_call(c, found)
    return found


def constructed(
    c: Checker, type_: ExternType, given: list[s.Expression], scope: Scope, position: Position
) -> tuple[ExternType, list[s.Expression]]:
    """An extern object's type, with all its arguments, and the values that it is constructed from."""
    declaration: Declaration = c.top.get(type_.name, position)
    constructors = [m for m in declaration.node.methods if m.name == type_.name]
    node = s.Call(position, s.Name(position, type_.name), given)
    constructor = _chosen(type_.name, constructors, node)
    bindings = dict(zip(declaration.node.type_parameters, type_.arguments, strict=False))
    inner = _open_scope(declaration.scope, declaration.node.type_parameters)
    found = arguments(c, type_.name, declared(c, constructor, inner), node, scope, bindings)
    return ExternType(type_.name, tuple(resolve.bound(TypeVariable(p), bindings) for p in declaration.node.type_parameters)), found


# --- functions and actions as declared


def declare_function(c: Checker, node: s.Function, scope: Scope) -> None:
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
    if node.body is None or node.type_parameters or any(is_object(resolve.resolve(c, p.type, scope)) for p in node.parameters):
        return  # to be checked where it is called
    specialized(c, node, scope, {}, {}, node.position)


def specialized(
    c: Checker,
    node: s.Function,
    scope: Scope,
    bindings: dict[str, Type],
    objects: dict[str, checked.ExternObject],
    position: Position,
) -> checked.Function:
    """A function with its type parameters bound, and the extern objects that it takes, checked at first use."""
    for name in node.type_parameters:
        if isinstance(bindings.get(name, TypeVariable(name)), TypeVariable):
            raise CompileError(position, f"type parameter {name} of {node.name} is not known here: write {node.name}<…>(…)")
    key = id(node), *(bindings[name] for name in node.type_parameters), *objects.values()
    if key in c.functions:
        if c.functions[key].body is None:
            raise CompileError(position, f"function {node.name} calls itself")
        return c.functions[key]
    inner = Scope(scope)
    inner.names.update({name: TypeName(type_) for name, type_ in bindings.items()})
    made = checked.Function(node.name, node.position, resolve.resolve(c, node.result, inner), list(objects.values()))
    c.functions[key] = made
    body_scope = Scope(inner)
    made.parameters = [parameter(c, p, inner, body_scope) for p in node.parameters if p.name not in objects]
    body_scope.names.update(objects)
    body = deepcopy(node.body)
    assert body is not None
    if found := next((one for one in walk(body) if isinstance(one, s.Exit)), None):
        raise CompileError(found.position, "exit cannot stand in a function")
    if made.result != VOID and not always_returns(body):
        raise CompileError(node.position, f"function {node.name} does not return a value on all paths")
    with c.at(inside="function", result=made.result, role="", in_loop=False):
        c.statement(body, body_scope)
    made.body = body
    return made


def declare_action(c: Checker, node: s.Action, scope: Scope) -> None:
    """Enter an action, and check its body."""
    name = c.control_name(node.name, node.annotations)
    made = checked.Action(node.name, name, c.where.path, node.position, node.annotations)
    outer = scope.find(node.name)
    scope.declare(node.name, made, node.position)
    around = Scope(scope)
    if outer is not None:  # in its body, an action's name means what it hides: an extern function, say
        around.names[node.name] = outer
    inner = Scope(around)
    made.parameters = [parameter(c, p, scope, inner) for p in node.parameters]
    body = deepcopy(node.body)
    with c.at(inside="action", result=VOID, in_loop=False):
        c.statement(body, inner)
    made.body = body


def is_object(type_: Type) -> bool:
    """Whether a parameter stands for an extern object, which is known when compiling."""
    return isinstance(type_, ExternType) and type_.name not in PACKETS


def parameter(c: Checker, node: s.Parameter, scope: Scope, inner: Scope, lasting: bool = False) -> checked.Variable:
    """Enter a parameter into the scope of the body."""
    type_ = resolve.resolve(c, node.type, scope)
    if isinstance(type_, (Integer, StringType)) or type_ == VOID or (isinstance(type_, ExternType) and not lasting):
        raise CompileError(node.position, f"a parameter of type {type_} is not possible here")
    if is_object(type_) and node.direction:
        raise CompileError(node.position, f"parameter {node.name} has a direction, which {type_} cannot have")
    assignable = node.direction in ("out", "inout")
    made = checked.Variable(node.name, type_, assignable, node.direction, lasting, node.annotations, node.default)
    inner.declare(node.name, made, node.position)
    return made


EXPRESSIONS: dict[type, Callable[[Checker, Any, Scope, Type | None], s.Expression]] = {s.Call: call}
DECLARATIONS: dict[type, Callable[[Checker, Any, Scope], Any]] = {s.Function: declare_function, s.Action: declare_action}
