"""What P4 has and simple_switch has not, by the block: a program that runs here must run there (p4c's back end for BMv2)."""

from __future__ import annotations

from collections.abc import Iterator

from .. import checked
from .. import syntax as s
from ..errors import CompileError, Position
from ..types import bit_width
from ..walk import walk

CHECKSUMS = {
    "verify checksum": ("verify_checksum", "verify_checksum_with_payload"),
    "compute checksum": ("update_checksum", "update_checksum_with_payload"),
}
OF_PARSERS = ("verify", "log_msg", "static_assert")  # extern functions
COMPUTED = (s.Binary, s.Unary, s.Slice, s.Conditional)


def check(program: checked.Program) -> None:
    """Raise CompileError for what no block of its kind can have."""
    for block in program.blocks:
        if block.role == "parser":
            _parser(block)
        elif block.role == "deparser":
            _deparser(block)
        elif block.role in CHECKSUMS:
            _checksums(block, CHECKSUMS[block.role])


def _nodes(block: checked.Instance) -> Iterator[s.Node]:
    """What stands in a block, and in those that it applies."""
    for node in walk(block.body if block.body is not None else [[state.statements, state.select] for state in block.states]):
        yield node
        if isinstance(node, s.Call) and isinstance(node.callee, checked.Apply) and isinstance(node.callee.target, checked.Instance):
            yield from _nodes(node.callee.target)


def _refuse(position: Position, what: str, block: str, instead: str = "") -> None:
    raise CompileError(position, f"simple_switch has no {what} in a {block}{instead and ': '}{instead}")


def _called(node: s.Node) -> str:
    """What a call calls, in words, where that is no extern function, built-in method or block; else nothing."""
    callee = node.callee if isinstance(node, s.Call) else None
    if isinstance(callee, checked.Action):
        return f"action ({callee.name})"
    if isinstance(callee, checked.Apply) and isinstance(callee.target, checked.Table):
        return f"table ({callee.target.name})"
    if isinstance(callee, checked.ExternCall) and isinstance(callee.object, checked.ExternObject):
        return f"{callee.object.type.name} ({callee.object.name})"
    return ""


def _depends(condition: s.Expression) -> bool:
    """Whether a condition is about the packet: what is known when compiling, p4c takes away."""
    return condition.constant is None and any(isinstance(node, s.Member) for node in walk(condition))


def _parser(block: checked.Instance) -> None:
    for node in _nodes(block):
        if what := _called(node):
            _refuse(node.position, what, "parser", "use it in ingress")
        callee = node.callee if isinstance(node, s.Call) else None
        if isinstance(callee, checked.ExternCall) and callee.object is None and callee.name not in OF_PARSERS:
            _refuse(node.position, callee.name, "parser", "use it in ingress")


def _deparser(block: checked.Instance) -> None:
    for node in _nodes(block):
        if isinstance(node, s.If) and _depends(node.condition):
            _refuse(node.position, "if", "deparser", "emit leaves out headers that are not valid; set that in egress")
        if isinstance(node, s.Switch):
            _refuse(node.position, "switch", "deparser", "emit leaves out headers that are not valid; set that in egress")
        if what := _called(node):
            _refuse(node.position, what, "deparser", "use it in egress")


def _checksums(block: checked.Instance, functions: tuple[str, ...]) -> None:
    """Calls of these functions alone; what they take are fields, and not computed."""
    place, calls = f"{block.role} control", f"it has calls of {' and '.join(functions)} alone"
    for node in _nodes(block):
        if isinstance(node, (s.If, s.Switch)):
            condition = node.condition if isinstance(node, s.If) else node.selector
            if _depends(condition):
                _refuse(node.position, "branch", place, f"give {functions[0]} the condition")
        elif isinstance(node, s.Assignment) and _is_parameters(node.target):
            _refuse(node.position, "assignment to headers or metadata", place, calls)
        elif what := _called(node):
            _refuse(node.position, what, place, calls)
        elif isinstance(node, s.Call) and isinstance(node.callee, checked.ExternCall):
            if node.callee.name not in functions:
                _refuse(node.position, node.callee.name, place, calls)
            _fields(node.arguments[1], node.callee.name)


def _is_parameters(target: s.Expression) -> bool:
    """Whether a place is in what a block's parameters hold."""
    while isinstance(target, (s.Member, s.Index, s.Slice)):
        target = target.base
    return isinstance(target, s.Name) and bool(getattr(target.symbol, "direction", ""))


def _fields(data: s.Expression, function: str) -> None:
    for item in data.items if isinstance(data, s.ListExpression) else []:
        inner = item
        while isinstance(inner, s.Cast) and bit_width(inner.type) == bit_width(inner.operand.type):
            inner = inner.operand
        if inner.constant is None and isinstance(inner, (*COMPUTED, s.Cast)):
            raise CompileError(
                item.position, f"simple_switch computes nothing in {function}: keep the value in a field of metadata"
            )
