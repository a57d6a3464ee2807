"""What the control plane calls the things that a program declares."""

from __future__ import annotations

from collections.abc import Sequence

from .. import syntax as s
from ..errors import CompileError
from .context import Checker


def control_name(c: Checker, name: str, annotations: Sequence[s.Annotation]) -> str:
    """The instances' names, then the thing's @name or name; a @name with a leading dot is used alone."""
    for annotation in annotations:
        if annotation.name == "name" and annotation.body:
            name = annotation.text()
            if not name or name.startswith("#") or any(ch.isspace() for ch in name):
                raise CompileError(annotation.position, f"@name({name!r}): a command cannot name this, use a name without spaces")
    return name[1:] if name.startswith(".") else ".".join((*c.where.shown, name))
