"""Action profiles and selectors as implementations of tables: entries refer to members, or to groups of members (v1model.p4).

A selector's inputs are those keys of its tables that are of kind `selector`. BMv2 keeps them with the selector, and so all of its
tables have the same ones.
"""

from __future__ import annotations

from .. import checked
from .. import syntax as s
from ..errors import CompileError, unsupported
from ..types import ExternType
from . import calls
from .context import Checker
from .scope import Declaration, Scope

KINDS = ("action_profile", "action_selector")


def of_table(c: Checker, table: checked.Table, prop: s.Property | None, scope: Scope) -> checked.ExternObject | None:
    """What implements a table: an object by its name, or one that stands in the property and has the property's @name."""
    if prop is None:
        return None
    match prop.value:
        case s.Name(name=name):
            found = scope.find(name)
            if isinstance(found, checked.ExternObject) and found.type.name in KINDS:
                return found
        case s.Call(function=s.Name(name=name)) if name in KINDS and isinstance(scope.find(name), Declaration):
            type_, given = calls.constructed(c, ExternType(name), prop.value.arguments, scope, prop.position)
            shown = next((a.text() for a in prop.annotations if a.name == "name" and a.body), "") or c.unnamed("action_profile")
            c.name_once("action_profile", shown, prop.position)
            return checked.ExternObject(
                type_, given, f"{table.name}_implementation", shown, table.path, prop.position, prop.annotations
            )
    raise CompileError(prop.position, "implementation must be an action_profile or an action_selector")


def check(c: Checker, table: checked.Table, node: s.Table) -> None:
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
