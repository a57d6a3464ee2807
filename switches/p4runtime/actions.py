"""Actions in messages, as the words of commands."""

from __future__ import annotations

from typing import Any

from .bytestrings import decode
from .errors import invalid
from .pipeline import Pipeline, require


def words_of(pipeline: Pipeline, action: Any) -> list[str]:
    """The action's name and the values of its parameters, in the order of the program. Raises P4RuntimeError."""
    described = pipeline.get("actions", action.action_id)
    given = {}
    for parameter in action.params:
        require(parameter.param_id not in given, f"parameter {parameter.param_id} of {described.preamble.name} is given twice")
        given[parameter.param_id] = parameter.value
    values = []
    for parameter in described.params:
        what = f"parameter {parameter.name} of {described.preamble.name}"
        if parameter.id not in given:
            raise invalid(f"{what} is missing")
        values.append(str(decode(given.pop(parameter.id), parameter.bitwidth, what)))
    require(not given, f"{described.preamble.name} has no parameter {next(iter(given), '')}")
    return [described.preamble.name, *values]


def check_listed(table: Any, action_id: int, default: bool) -> None:
    """Raise P4RuntimeError unless a table may have an action, in an entry or as its default."""
    scopes = [ref.scope for ref in table.action_refs if ref.id == action_id]
    require(bool(scopes), f"table {table.preamble.name} has no action with id {action_id}")
    wrong = table.action_refs[0].TABLE_ONLY if default else table.action_refs[0].DEFAULT_ONLY
    place = "the default action" if default else "an entry"
    require(scopes[0] != wrong, f"this action of table {table.preamble.name} cannot be that of {place}")
