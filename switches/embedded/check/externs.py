"""What v1model's externs ask of their arguments beyond the types that v1model.p4 declares, and where they may be called."""

from __future__ import annotations

from collections.abc import Callable

from .. import checked
from .. import syntax as s
from ..errors import CompileError, unsupported
from ..types import Bits, EnumType, Header, TupleOf, Varbit
from . import resolve
from .context import Checker


def check(c: Checker, node: s.Call) -> None:
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
    fields = node.type.fields if isinstance(node.type, Header) else []
    if any(isinstance(f.type, Varbit) for f in fields) or not (fields or resolve.has_layout(node.type)):
        raise CompileError(node.position, f"lookahead needs a type with a width, and {node.type} has none")


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
