"""Tables: keys, actions, default action, constant entries, and action profiles (section 14.2, v1model.p4)."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

from .. import checked
from .. import syntax as s
from ..advice import advice
from ..errors import CompileError, Position, unsupported
from ..types import ExternType, as_bits
from . import expressions, resolve
from .calls import Parameter, arguments, constructed, of_variables
from .context import Checker, Declaration, Scope
from .expressions import pattern

DEFAULT_SIZE = 1024
LARGEST = 1 << 24  # entries of a table
KINDS = ("exact", "lpm", "ternary", "range", "optional", checked.SELECTOR)
PROPERTIES = {
    "size",
    "default_action",
    "counters",
    "const_default_action",
    "meters",
    "support_timeout",
    "largest_priority_wins",
    "priority_delta",
    "implementation",
}


def declare(c: Checker, written: s.Table, scope: Scope) -> checked.Table:
    """Enter a table into a control's scope."""
    node = deepcopy(written)
    name = c.control_name(node.name, node.annotations)
    made = checked.Table(node.name, name, c.where.path, node.position, node.annotations)
    properties = _properties(c, node)
    if node.entries and not node.key:
        raise CompileError(node.position, f"table {node.name} has entries, and no key")
    if sum(element.match_kind == "lpm" for element in node.key) > 1:
        raise CompileError(node.position, f"table {node.name} has more than one lpm key")
    made.profile = _profile(c, made, properties.get("implementation"), scope)
    texts = [[source_text(a) for a in reference.arguments] for reference in node.actions]
    for reference in node.actions:
        made.actions.append(_listed(c, reference, scope))
    if len({listed.action.control_name for listed in made.actions}) != len(made.actions):
        raise CompileError(node.position, f"table {node.name} lists an action twice")
    made.key = [_key(c, element, scope) for element in node.key]
    _default(c, made, texts, properties.get("default_action"), scope)
    made.size = _size(c, properties, scope)
    made.counter = _direct(properties.get("counters"), "direct_counter", scope)
    made.meter = _direct(properties.get("meters"), "direct_meter", scope)
    made.ages = "support_timeout" in properties and _known_bool(c, properties["support_timeout"], scope)
    _check_profile(c, made, node)
    _entries(c, made, node, scope)
    c.name_once("table", made.control_name, node.position)
    scope.declare(node.name, made, node.position)
    return made


def _properties(c: Checker, node: s.Table) -> dict[str, s.Property]:
    found: dict[str, s.Property] = {}
    for one in node.properties:
        if one.name not in PROPERTIES:
            if near := advice(one.name, sorted(PROPERTIES)):
                raise CompileError(one.position, f"there is no table property {one.name}{near}")
            c.warn(one.position, f"table property {one.name} is left out: simple_switch has none of that name")
            continue
        if one.name in found:
            raise CompileError(one.position, f"table {node.name} gives {one.name} twice")
        found[one.name] = one
    return found


def _size(c: Checker, properties: dict[str, s.Property], scope: Scope) -> int:
    if "size" not in properties:
        return DEFAULT_SIZE
    size = resolve.number(c, properties["size"].value, scope)
    if not 0 <= size <= LARGEST:
        raise CompileError(properties["size"].position, f"a table of {size} entries is not possible (at most {LARGEST})")
    return size or DEFAULT_SIZE  # as p4c


def _known_bool(c: Checker, prop: s.Property, scope: Scope) -> bool:
    value = expressions.condition(c, prop.value, scope).constant
    if value is None:
        raise CompileError(prop.position, f"{prop.name} must be known when compiling")
    return bool(value)


def _direct(prop: s.Property | None, kind: str, scope: Scope) -> checked.ExternObject | None:
    """The counters or meters of a table's entries."""
    if prop is None:
        return None
    symbol = scope.find(prop.value.name) if isinstance(prop.value, s.Name) else None
    if not isinstance(symbol, checked.ExternObject) or symbol.type.name != kind:
        raise CompileError(prop.position, f"{prop.name} must name a {kind}")
    return symbol


# --- keys and actions


def _key(c: Checker, element: s.KeyElement, scope: Scope) -> checked.Key:
    if element.match_kind not in c.match_kinds:
        raise CompileError(element.position, f"{element.match_kind} is not a match kind{advice(element.match_kind, list(KINDS))}")
    if element.match_kind not in KINDS:
        raise unsupported(element.position, f"match kind {element.match_kind}")
    names = [a.text() for a in element.annotations if a.name == "name" and a.body]
    text, has_name = source_text(element.expression), bool(names) or _has_name(element.expression)
    found = c.expression(element.expression, scope)
    type_ = found.type
    if as_bits(type_) is None:
        raise CompileError(element.position, f"a key of {type_} is not possible")
    if not has_name and found.constant is None:
        raise CompileError(element.position, 'a computed key has no name of its own: write @name("...") behind its match kind')
    return checked.Key(names[0] if names else text, text, element.match_kind, found, element.position, element.annotations)


def _has_name(node: s.Expression) -> bool:
    """Whether p4c makes a name of a key: of a field, a part of it, or of some of its bits."""
    match node:
        case s.Name() | s.Number():
            return True
        case s.Member(base=base) | s.Index(base=base) | s.Slice(base=base):
            return _has_name(base)
        case s.Call(function=s.Member(base=base, name="isValid")):
            return _has_name(base)
        case s.Binary(operator="&"):
            return _has_name(node.left) and _has_name(node.right)
    return False


def _listed(c: Checker, reference: s.ActionRef, scope: Scope) -> checked.ListedAction:
    action = scope.get(reference.name, reference.position)
    if not isinstance(action, checked.Action):
        raise CompileError(reference.position, f"{reference.name} is not an action")
    directed = [bool(p.direction) for p in action.parameters]
    if directed != sorted(directed, reverse=True):
        raise CompileError(
            action.position, f"action {action.name}: parameters without a direction come last (the control plane sets them)"
        )
    if len(reference.arguments) != sum(directed):
        raise CompileError(
            reference.position,
            f"the table must bind the {sum(directed)} parameters of {reference.name} that have a direction, "
            f"and gives {len(reference.arguments)}",
        )
    parameters = of_variables(action.parameters[: sum(directed)])
    call = s.Call(reference.position, s.Name(reference.position, reference.name), reference.arguments)
    marks = {a.name for a in reference.annotations}
    bound = arguments(c, action.name, parameters, call, scope)
    return checked.ListedAction(action, bound, "tableonly" in marks, "defaultonly" in marks)


def _data(c: Checker, action: checked.Action, given: list[s.Expression], scope: Scope, position: Position) -> list[int]:
    """Constant arguments for the parameters that the control plane sets."""
    parameters = [Parameter(p.name, p.type, "", known=True) for p in action.data]
    found = arguments(c, action.name, parameters, s.Call(position, s.Name(position, action.name), given), scope)
    return [int(a.constant or 0) for a in found]


def _default(c: Checker, table: checked.Table, texts: list[list[str]], prop: s.Property | None, scope: Scope) -> None:
    """The default action: NoAction where none is given."""
    names = [listed.action.name for listed in table.actions]
    if prop is None:
        if "NoAction" not in names:
            reference = s.ActionRef(table.position, "NoAction", [], [])
            table.actions.append(replace(_listed(c, reference, c.top), default_only=True))
        table.default = [listed.action.name for listed in table.actions].index("NoAction")
        return
    node = prop.value if isinstance(prop.value, s.Call) else s.Call(prop.position, prop.value, [])
    if not isinstance(node.function, s.Name):
        raise CompileError(prop.position, "default_action must be an action, with its arguments")
    name = node.function.name
    if name not in names:
        raise CompileError(prop.position, f"default action {name} is not among the table's actions")
    table.default, table.constant_default = names.index(name), prop.constant
    listed, given = table.actions[table.default], node.arguments
    if listed.table_only:
        raise CompileError(prop.position, f"{name} is marked @tableonly")
    bound = texts[table.default]
    if bound and len(given) == len(listed.action.parameters):
        if [source_text(a) for a in given[: len(bound)]] != bound:
            raise CompileError(prop.position, f"{name} has other arguments in the list of actions")
        given = given[len(bound) :]  # those that the list of actions binds may be said again
    table.default_data = _data(c, listed.action, given, scope, prop.position)


# --- action profiles: entries refer to members, or to groups of members. A selector's inputs are those keys of its tables that are
# of kind `selector`; BMv2 keeps them with the selector, and so all of its tables have the same ones.


def _profile(c: Checker, table: checked.Table, prop: s.Property | None, scope: Scope) -> checked.ExternObject | None:
    """What implements a table: an object by its name, or one that stands in the property and has the property's @name."""
    if prop is None:
        return None
    match prop.value:
        case s.Name(name=name):
            found = scope.find(name)
            if isinstance(found, checked.ExternObject) and found.type.name in checked.PROFILES:
                return found
        case s.Call(function=s.Name(name=name)) if name in checked.PROFILES and isinstance(scope.find(name), Declaration):
            type_, given = constructed(c, ExternType(name), prop.value.arguments, scope, prop.position)
            shown = next((a.text() for a in prop.annotations if a.name == "name" and a.body), "") or c.unnamed("action_profile")
            c.name_once("action_profile", shown, prop.position)
            return checked.ExternObject(
                type_, given, f"{table.name}_implementation", shown, table.path, prop.position, prop.annotations
            )
    raise CompileError(prop.position, "implementation must be an action_profile or an action_selector")


def _check_profile(c: Checker, table: checked.Table, node: s.Table) -> None:
    """Raise CompileError if a table with an action profile has something that is not supported."""
    profile = table.profile
    if table.selectors and (profile is None or profile.type.name != "action_selector"):
        raise CompileError(table.selectors[0].position, "a selector key belongs to a table that an action_selector implements")
    if profile is None:
        return
    if node.entries:
        raise unsupported(node.position, f"entries of the program in a table that an {profile.type.name} implements")
    default = table.actions[table.default].action
    if default.body is not None and default.body.statements:
        c.warn(
            table.position, f"the default action of table {table.name} never runs: simple_switch has none beside action profiles"
        )
    for other in profile.tables[:1]:
        if [key.text for key in other.selectors] != [key.text for key in table.selectors]:
            raise CompileError(node.position, f"{profile.name} has other selector keys in table {other.name}: BMv2 needs the same")
    profile.tables.append(table)


# --- constant entries


def _entries(c: Checker, table: checked.Table, node: s.Table, scope: Scope) -> None:
    """Entries in the order of their precedence: the longer prefix first; else by @priority, or else as they stand."""
    kinds = {key.kind for key in table.keys}
    by_length = "lpm" in kinds and kinds <= {"lpm", "exact"}
    names = [listed.action.name for listed in table.actions]
    seen = set()
    for order, entry in enumerate(node.entries):
        keys = _patterns(c, table, entry, scope)
        if node.constant_entries and entry.priority is not None:
            raise CompileError(entry.position, "const entries have no priorities (p4c takes @priority)")
        precedence = _precedence(entry, order, keys, by_length, kinds == {"exact"})
        identity = (*keys, 0 if by_length else precedence)
        if identity in seen:
            raise CompileError(entry.position, f"table {table.name} has two entries of this key")
        seen.add(identity)
        if entry.action.name not in names:
            raise CompileError(entry.position, f"{entry.action.name} is not among the table's actions")
        number = names.index(entry.action.name)
        if table.actions[number].default_only:
            raise CompileError(entry.position, f"{entry.action.name} is marked @defaultonly")
        data = _data(c, table.actions[number].action, entry.action.arguments, scope, entry.position)
        table.entries.append(checked.Entry(keys, number, data, precedence, entry.position))
    table.entries.sort(key=lambda entry: entry.precedence)
    table.constant_entries = node.constant_entries or bool(node.entries)
    if node.entries and not node.constant_entries:
        c.warn(
            node.position, f"simple_switch takes the entries of table {table.name} as const, and in the order in which they stand"
        )


def _patterns(c: Checker, table: checked.Table, entry: s.Entry, scope: Scope) -> list[checked.Pattern]:
    if len(entry.keys) == 1 and isinstance(entry.keys[0], s.DontCare) and len(table.keys) > 1:
        return [checked.Pattern("any")] * len(table.keys)
    if len(entry.keys) != len(table.keys):
        raise CompileError(entry.position, f"the key has {len(table.keys)} fields, and {len(entry.keys)} are given")
    return [pattern(c, one, key.kind, key.expression.type, scope) for one, key in zip(entry.keys, table.keys, strict=True)]


def _precedence(entry: s.Entry, order: int, keys: list[checked.Pattern], by_length: bool, exact: bool) -> int:
    """Lower goes first."""
    if by_length:
        return -sum(key.high.bit_count() for key in keys)
    given = [a for a in entry.annotations if a.name == "priority"]
    if exact or not given:
        return 0 if exact else order + 1
    if len(given[0].body) != 1 or not given[0].body[0].isdigit():
        raise CompileError(given[0].position, "@priority takes one number")
    return int(given[0].body[0])


def source_text(node: s.Expression) -> str:
    """An expression as the control plane names a key: hdr.ipv4.dst, hdr.ipv4.$valid$, meta.x[7:4] (p4c's keyNameGenerator)."""
    match node:
        case s.Call(function=s.Member(base=base, name="isValid")):
            return f"{source_text(base)}.$valid$"
        case s.Binary(operator="&"):
            mask = hex(node.right.value) if isinstance(node.right, s.Number) else source_text(node.right)
            return f"{source_text(node.left)} & {mask}"
        case s.Name():
            return node.name
        case s.Member():
            return f"{source_text(node.base)}.{node.name}"
        case s.Call():
            return f"{source_text(node.function)}()"
        case s.Index():
            return f"{source_text(node.base)}[{source_text(node.index)}]"
        case s.Slice():
            return f"{source_text(node.base)}[{source_text(node.high)}:{source_text(node.low)}]"
        case s.Number():
            return str(node.value)
    return "key"


DECLARATIONS: dict[type, Callable[[Checker, Any, Scope], Any]] = {s.Table: declare}
