"""What v1model and simple_switch ask of a program beyond the language: a program that runs here must run there (p4c's back end for
BMv2)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from .. import checked
from .. import syntax as s
from ..errors import CompileError, Position, unsupported
from ..types import Bits, EnumType, Header, HeaderUnion, Stack, Struct, TupleOf, Type, Varbit, bit_width
from ..walk import walk
from . import resolve
from .context import Checker

# --- externs: their arguments beyond the types that v1model.p4 declares, and where they may be called


def check_call(c: Checker, node: s.Call) -> None:
    """Raise CompileError for a call of an extern that simple_switch could not make."""
    callee: checked.ExternCall = node.callee
    object_ = callee.object
    kind = str(object_.type.name) if object_ is not None else ""  # type: ignore[attr-defined]
    rule = RULES.get((kind, callee.name))
    if rule is not None:
        rule(c, node)


def _verify(c: Checker, node: s.Call) -> None:
    if c.where.inside != "parser":
        raise CompileError(node.position, "verify stands in a parser only")


def _static_assert(c: Checker, node: s.Call) -> None:
    if not node.arguments[0].constant:
        message = node.arguments[1].constant if len(node.arguments) > 1 else ""
        raise CompileError(node.position, f"static_assert failed{f': {message}' if message else ''}")


def _extract(c: Checker, node: s.Call) -> None:
    if c.where.inside != "parser":
        raise CompileError(node.position, "extract stands in a parser only")
    header = node.arguments[0]
    if not isinstance(header.type, Header):
        raise CompileError(header.position, f"only a header can be extracted, and this is {header.type}")
    varbit = any(isinstance(f.type, Varbit) for f in header.type.fields)
    if varbit and len(node.arguments) == 1:
        raise CompileError(node.position, f"header {header.type} has a varbit field: extract needs its length")
    if not varbit and len(node.arguments) == 2:
        raise CompileError(node.position, f"header {header.type} has no varbit field")


def _lookahead(c: Checker, node: s.Call) -> None:
    _in_parser(c, node)
    if isinstance(node.type, Stack):
        raise CompileError(node.position, "simple_switch cannot look ahead to a header stack alone: make a struct of it")
    if not _has_width(node.type):
        raise CompileError(node.position, f"lookahead needs a type with a width, and {node.type} has none")


def _has_width(type_: Type) -> bool:
    """Whether a type has a layout on the wire, where headers and stacks count as their fields."""
    match type_:
        case HeaderUnion():
            return False
        case Struct():
            return all(_has_width(f.type) for f in type_.fields) and not (isinstance(type_, Header) and not type_.fields)
        case Stack():
            return _has_width(type_.element)
    return resolve.has_layout(type_)


def _in_parser(c: Checker, node: s.Call) -> None:
    if c.where.inside != "parser":
        raise CompileError(node.position, f"{node.callee.name} stands in a parser only")


def _emit(c: Checker, node: s.Call) -> None:
    if c.where.inside == "action":
        raise unsupported(node.position, "emit in an action")


def _index(c: Checker, node: s.Call) -> None:
    register: checked.ExternObject = node.callee.object
    index = node.arguments[1 if node.callee.name == "read" else 0].constant
    cells = register.arguments[0].constant
    if isinstance(index, int) and isinstance(cells, int) and not 0 <= index < cells:
        raise CompileError(node.position, f"register {register.control_name} has {cells} cells, no cell {index}")


def _read_meter(c: Checker, node: s.Call) -> None:
    meter: checked.ExternObject = node.callee.object
    if c.where.inside != "action":
        raise CompileError(node.position, "a direct meter is read in an action of its table")
    meter.reads.append(node.arguments[0])


def _into_bits(c: Checker, node: s.Call) -> None:
    result = node.arguments[0]
    if not isinstance(result.type, Bits):
        raise CompileError(result.position, f"this is {result.type}, where bit<W> is needed")


def _digest(c: Checker, node: s.Call) -> None:
    """A digest has its type's name; those of lists are numbered, as p4c does."""
    _only_in("ingress")(c, node)
    type_ = node.arguments[1].type
    unnamed = sum(isinstance(other, TupleOf) for other in c.digests)
    if type_ is not None:
        c.digests.setdefault(type_, f"digest_{unnamed}" if isinstance(type_, TupleOf) else str(type_))


def _only_in(role: str) -> Callable[[Checker, s.Call], None]:
    def rule(c: Checker, node: s.Call) -> None:
        if c.where.role not in (role, ""):  # it is unknown in a control that nothing applies
            name = node.callee.name
            raise CompileError(node.position, f"{name} belongs in the {role} block, and this is the {c.where.role} block")

    return rule


def _clone(c: Checker, node: s.Call) -> None:
    kind = node.arguments[0]
    if not isinstance(kind.type, EnumType) or not isinstance(kind.constant, int):
        raise CompileError(node.position, "the type of a clone must be known when compiling")
    _only_in({"I2E": "ingress", "E2E": "egress"}[kind.type.members[kind.constant]])(c, node)


def _log_msg(c: Checker, node: s.Call) -> None:
    message = node.arguments[0].constant
    values: list[s.Expression] = []
    if len(node.arguments) == 2:
        if not isinstance(node.arguments[1], s.ListExpression):
            raise CompileError(node.arguments[1].position, "the values of log_msg are a list: {...}")
        values = node.arguments[1].items
    places = str(message).count("{}")
    if places != len(values):
        raise CompileError(node.position, f"the message has {places} places, and {len(values)} values are given")


RULES: dict[tuple[str, str], Callable[[Checker, s.Call], None]] = {
    ("", "verify"): _verify,
    ("", "static_assert"): _static_assert,
    ("packet_in", "extract"): _extract,
    ("packet_in", "lookahead"): _lookahead,
    ("packet_in", "advance"): _in_parser,
    ("packet_out", "emit"): _emit,
    ("register", "read"): _index,
    ("register", "write"): _index,
    ("", "random"): _into_bits,
    ("", "hash"): _into_bits,
    ("", "digest"): _digest,
    ("direct_meter", "read"): _read_meter,
    ("", "verify_checksum"): _only_in("verify checksum"),
    ("", "verify_checksum_with_payload"): _only_in("verify checksum"),
    ("", "update_checksum"): _only_in("compute checksum"),
    ("", "update_checksum_with_payload"): _only_in("compute checksum"),
    ("", "clone"): _clone,
    ("", "clone_preserving_field_list"): _clone,
    ("", "resubmit_preserving_field_list"): _only_in("ingress"),
    ("", "recirculate_preserving_field_list"): _only_in("egress"),
    ("", "log_msg"): _log_msg,
}


# --- blocks: what P4 has and simple_switch has not


CHECKSUMS = {
    "verify checksum": ("verify_checksum", "verify_checksum_with_payload"),
    "compute checksum": ("update_checksum", "update_checksum_with_payload"),
}
OF_PARSERS = ("verify", "log_msg", "static_assert")  # extern functions
COMPUTED = (s.Binary, s.Unary, s.Slice, s.Conditional)


def check_blocks(program: checked.Program) -> None:
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


# --- the deparser: more than a packet holds is an error (section 16)


PROGRAM_H = Path(__file__).parent.parent / "runtime" / "program.h"
MAX_PACKET = int(re.findall(r"#define MAX_PACKET (\d+)", PROGRAM_H.read_text())[0])


def most_emitted(node: s.Statement | None, before: int) -> int:
    """The most bytes that have been emitted behind a statement, with stacks and varbit fields counted in full."""
    match node:
        case s.Block():
            for inside in node.statements:
                before = most_emitted(inside, before)
        case s.If():
            return max(most_emitted(node.then, before), most_emitted(node.otherwise, before))
        case s.For() | s.ForIn():
            if most_emitted(node.body, before) != before:
                raise unsupported(node.position, "emit in a loop")
        case s.CallStatement():
            return _emitted(node.call, before)
    return before


def _emitted(call: s.Call, before: int) -> int:
    match call.callee:
        case checked.Apply(checked.Instance() as instance):
            return most_emitted(instance.body, before)
        case checked.ExternCall("emit"):
            after = before + _size(call.arguments[0].type)
            if after > MAX_PACKET:
                raise CompileError(
                    call.position,
                    f"the deparser can emit {after} bytes up to here, and a packet has at most {MAX_PACKET}: "
                    "make header stacks or varbit fields smaller, or emit fewer headers",
                )
            return after
    return before


def _size(type_: Type) -> int:
    """The most bytes that emit of a header, a stack, a struct or a list of them writes."""
    match type_:
        case Stack():
            return type_.size * _size(type_.element)
        case HeaderUnion():
            return max((_size(f.type) for f in type_.fields), default=0)
        case Header():
            return sum(bit_width(f.type) for f in type_.fields) // 8
        case Struct():
            return sum(_size(f.type) for f in type_.fields)
        case TupleOf():
            return sum(_size(member) for member in type_.members)
    return 0
