"""Steps: the statements that a packet passes through, and what each writes. Only programs compiled with a trace record them."""

from __future__ import annotations

from .. import checked
from .. import syntax as s
from ..errors import Position
from ..text import c_string
from .context import Context

TAKING = ("emit", "write", "count")  # methods that take arguments and write none of them
RECORDED = (s.Assignment, s.CallStatement, s.If, s.Switch, s.Return, s.Exit)


def statement(c: Context, node: s.Statement) -> None:
    """Record that a statement is reached."""
    if c.traced and isinstance(node, RECORDED):
        _step(c, node.position, _written(node))


def action(c: Context, entered: checked.Action) -> None:
    """Record that an action is entered."""
    if c.traced:
        _step(c, entered.position, [f"action {entered.control_name}"])


def state(c: Context, entered: checked.State) -> None:
    """Record that a parser's state is entered."""
    if c.traced:
        _step(c, entered.position, [f"state {entered.name}"])


def catalogue(c: Context) -> str:
    """The table that the runtime finds steps in, in C."""
    return f"const struct trace_point program_trace_points[] = {{{', '.join([*c.trace_points, '{0}'])}}};"


def _step(c: Context, position: Position, written: list[str]) -> None:
    c.emit(f"trace_step({len(c.trace_points)});")
    c.trace_points.append(f"{{{c_string(position.file)}, {position.line}, {c_string(' '.join(written))}}}")


def _written(node: s.Statement) -> list[str]:
    """What a statement writes: paths of variables, and the names of what it calls."""
    if isinstance(node, s.Assignment):
        return _paths([node.target])
    if isinstance(node, s.CallStatement):
        names = _paths([node.call.function])
        takes = any(name.rpartition(".")[2] in TAKING for name in names)
        return [f"{name}()" for name in names] + ([] if takes else _paths(node.call.arguments))
    return []


def _paths(nodes: list[s.Expression]) -> list[str]:
    return [path for path in map(_path, nodes) if path]


def _path(node: s.Expression) -> str:
    """hdr.ipv4.ttl; without the parts of an expression that are computed."""
    if isinstance(node, s.Name):
        return node.name
    if isinstance(node, s.Member):
        base = _path(node.base)
        return f"{base}.{node.name}" if base else ""
    if isinstance(node, (s.Slice, s.Index)):
        return _path(node.base)
    return ""
