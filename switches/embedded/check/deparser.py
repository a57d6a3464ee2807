"""How many bytes a deparser emits at most: more than a packet holds is an error (section 16)."""

from __future__ import annotations

import re
from pathlib import Path

from .. import checked
from .. import syntax as s
from ..errors import CompileError, unsupported
from ..types import Header, HeaderUnion, Stack, Struct, TupleOf, Type, bit_width

PROGRAM_H = Path(__file__).parent.parent / "runtime" / "program.h"
MAX_PACKET = int(re.findall(r"#define MAX_PACKET (\d+)", PROGRAM_H.read_text())[0])


def most(node: s.Statement | None, before: int) -> int:
    """The most bytes that have been emitted behind a statement, with stacks and varbit fields counted in full."""
    match node:
        case s.Block():
            for inside in node.statements:
                before = most(inside, before)
        case s.If():
            return max(most(node.then, before), most(node.otherwise, before))
        case s.For() | s.ForIn():
            if most(node.body, before) != before:
                raise unsupported(node.position, "emit in a loop")
        case s.CallStatement():
            return _called(node.call, before)
    return before


def _called(call: s.Call, before: int) -> int:
    match call.callee:
        case checked.Apply(checked.Instance() as instance):
            return most(instance.body, before)
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
