"""All nodes of a syntax tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from . import syntax as s


def walk(node: object) -> Iterator[s.Node]:
    """A node and every node below it, the outer before the inner."""
    if isinstance(node, s.Node):
        yield node
        for f in fields(node):
            if f.init:  # the others are what the checker has found
                yield from walk(getattr(node, f.name))
    elif isinstance(node, (list, tuple)):
        for child in node:
            yield from walk(child)


def always_returns(node: s.Statement) -> bool:
    """True if every path through a statement ends in `return`."""
    if isinstance(node, s.Return):
        return True
    if isinstance(node, s.Block):
        return any(always_returns(inner) for inner in node.statements)
    if isinstance(node, s.If):
        return node.otherwise is not None and always_returns(node.then) and always_returns(node.otherwise)
    if isinstance(node, s.Switch):
        complete = any(isinstance(case.label, s.DontCare) for case in node.cases)
        return complete and all(case.body is None or always_returns(case.body) for case in node.cases)
    return False
