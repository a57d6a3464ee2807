"""What the control plane calls the things that a program declares."""

from __future__ import annotations

from collections.abc import Sequence

from switches.embedded import syntax as s
from switches.embedded.check.context import Checker
from switches.embedded.errors import CompileError


def control_name(c: Checker, name: str, annotations: Sequence[s.Annotation]) -> str:
    """A thing's @name or name behind those of the instances around it; a @name that begins with a dot stands alone."""
    for annotation in annotations:
        if annotation.name == "name" and annotation.body:
            name = annotation.text()
            if not name or name.startswith("#") or any(ch.isspace() for ch in name):
                raise CompileError(annotation.position, f"@name({name!r}): a command cannot name this, use a name without spaces")
    return name[1:] if name.startswith(".") else ".".join((*c.where.shown, name))
