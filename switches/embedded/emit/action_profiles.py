"""Action profiles and selectors: what the runtime knows of them, and the hash by which a selector chooses from a group."""

from __future__ import annotations

from .. import checked
from .. import syntax as s
from ..text import c_string
from . import externs, packing
from .actions import action_info
from .context import Context


def describe(c: Context, table: checked.Table, name: str) -> str:
    """What a table says of its profile, in C; it numbers the actions that members may have by its own list."""
    profile = table.profile
    assert profile is not None
    if profile not in c.objects:
        _declare(c, profile)
    own = [listed.action for listed in table.actions]
    numbers = [own.index(action) if action in own else len(own) for action in _actions(profile)]
    c.globals.append(f"static const unsigned {name}_numbers[] = {{{', '.join(map(str, numbers))}}};")
    return f".profile = &{c.objects[profile]}, .profile_numbers = {name}_numbers"


def _declare(c: Context, profile: checked.ExternObject) -> None:
    made = c.objects[profile] = c.unique("_".join((*profile.path, profile.name)))
    rows = [action_info(c, action, f"{made}_{i}_parameters") for i, action in enumerate(_actions(profile))]
    c.globals.append(f"static const struct action_info {made}_actions[] = {{{', '.join(rows)}}};")
    selects = "true" if profile.type.name == "action_selector" else "false"
    c.globals.append(
        f"static struct action_profile {made} = {{.name = {c_string(profile.control_name)}, .selects = {selects}, "
        f".actions = {made}_actions, .action_count = {len(rows)}}};"
    )
    c.action_profiles.append(made)


def _actions(profile: checked.ExternObject) -> list[checked.Action]:
    """The actions of all tables that a profile implements."""
    return list(dict.fromkeys(listed.action for table in profile.tables for listed in table.actions))


def selected(c: Context, table: checked.Table) -> str:
    """C of the hash of a table's selector keys; 0 where nothing selects."""
    profile = table.profile
    if profile is None or profile.type.name != "action_selector":
        return "0"
    buffer, size = packing.pack(c, s.ListExpression(table.position, [key.expression for key in table.selectors]))
    return f"(uint32_t){externs.algorithm(c, profile.arguments[0])}{buffer}, {size})"
