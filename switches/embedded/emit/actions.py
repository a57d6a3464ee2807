"""The actions of a table, or of the members of an action profile: how they are run, and what commands need to know of them."""

from __future__ import annotations

from .. import checked
from ..errors import unsupported
from ..text import c_string
from ..types import as_bits
from . import calls
from .context import Context
from .ctypes import bits_of, c_type, is_wide, literal, size_of

MAX_ACTION_WORDS = 64  # as runtime/program.h has it


def run(c: Context, listed: checked.ListedAction, data: list[str]) -> None:
    """Call a table's action with the arguments that the table binds, and the entry's data."""
    with c.indented("{"):
        calls.call_action(c, listed.action, listed.bound, data)


def entry_data(c: Context, action: checked.Action) -> list[str]:
    """An action's parameters in the words of an entry."""
    found, word = [], 0
    for parameter in action.data:
        bits = bits_of(parameter.type)
        if is_wide(bits):
            found.append(f"*(const {c_type(c, bits)} *)(data + {word})")
            word += (size_of(bits) + 7) // 8
        else:
            found.append(f"({c_type(c, parameter.type)})data[{word}]")
            word += 1
    return found


def constant_data(c: Context, action: checked.Action, data: list[int]) -> list[str]:
    return [f"({c_type(c, p.type)}){literal(value, bits_of(p.type))}" for p, value in zip(action.data, data, strict=True)]


def action_info(c: Context, action: checked.Action, name: str) -> str:
    """An action's name and parameters, as a `struct action_info` in C."""
    for parameter in action.data:
        if as_bits(parameter.type) is None:
            raise unsupported(action.position, f"an action parameter of type {parameter.type} in a table")
    words = sum((size_of(bits_of(p.type)) + 7) // 8 for p in action.data)
    if words > MAX_ACTION_WORDS:
        raise unsupported(action.position, f"an action with {words} words of parameters (at most {MAX_ACTION_WORDS})")
    if not action.data:
        return f"{{{c_string(action.control_name)}, NULL, 0}}"
    fields = ", ".join(f'{{"{p.name}", {bits_of(p.type).width}}}' for p in action.data)
    c.globals.append(f"static const struct action_parameter {name}[] = {{{fields}}};")
    return f"{{{c_string(action.control_name)}, {name}, {len(action.data)}}}"
