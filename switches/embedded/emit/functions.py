"""Actions and functions: a C function each, written at first use."""

from __future__ import annotations

from .. import checked
from ..types import VOID
from . import statements, trace
from .context import Context
from .ctypes import c_type
from .place import Place


def action(c: Context, action: checked.Action) -> str:
    """The C function of an action."""
    if action not in c.named:
        c.named[action] = c.unique("_".join((*action.path, action.name)))
        assert action.body is not None
        signature = f"static void {c.named[action]}({_parameters(c, action.parameters)})"
        with c.function(signature, f"action {action.control_name} ({action.position})"):
            trace.action(c, action)
            statements.block(c, action.body)
    return c.named[action]


def function(c: Context, function: checked.Function) -> str:
    """The C function of a function."""
    if function not in c.named:
        c.named[function] = c.unique(function.name)
        assert function.body is not None
        result = c_type(c, function.result)
        signature = f"static {result} {c.named[function]}({_parameters(c, function.parameters)})"
        with c.function(signature, f"function {function.name} ({function.position})"):
            statements.block(c, function.body)
            if function.result != VOID:
                c.emit("__builtin_unreachable();")
    return c.named[function]


def _parameters(c: Context, parameters: list[checked.Variable]) -> str:
    """C parameters: by address what is written."""
    written = []
    for parameter in parameters:
        name = c.unique(parameter.name)
        address = parameter.direction in ("out", "inout")
        written.append(f"{c_type(c, parameter.type)} {'*' if address else ''}{name}")
        c.places[parameter] = Place(f"(*{name})" if address else name)
    return ", ".join(written) or "void"
