"""Statements (section 12), and the declarations that may stand among them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .expressions import Call, Expression, Node, TypeRef


@dataclass
class Block(Node):
    statements: list[Statement]


@dataclass
class Assignment(Node):
    """target = value. For `target += value` the checker makes the value `old + value` (see Old)."""

    target: Expression
    value: Expression
    operator: str = ""


@dataclass
class CallStatement(Node):
    call: Call


@dataclass
class If(Node):
    condition: Expression
    then: Statement
    otherwise: Statement | None


@dataclass
class SwitchCase(Node):
    label: Expression
    body: Block | None


@dataclass
class Switch(Node):
    """Over a value, or over the action that a table's apply() ran: then `table` is that call, and labels become its numbers."""

    selector: Expression
    cases: list[SwitchCase]
    table: Call | None = field(init=False, default=None, compare=False, repr=False)


@dataclass
class For(Node):
    """for (first; condition; then) body."""

    first: list[Statement]
    condition: Expression
    then: list[Statement]
    body: Statement


@dataclass
class ForIn(Node):
    """for (type name in low .. high) body, or over a header stack, which is then `low`."""

    variable: Variable
    low: Expression
    high: Expression | None
    body: Statement


@dataclass
class Break(Node):
    pass


@dataclass
class Continue(Node):
    pass


@dataclass
class Return(Node):
    value: Expression | None


@dataclass
class Exit(Node):
    pass


@dataclass
class Variable(Node):
    type: TypeRef
    name: str
    initial: Expression | None
    symbol: Any = field(init=False, default=None, compare=False, repr=False)  # a checked.Variable


@dataclass
class Constant(Node):
    type: TypeRef
    name: str
    value: Expression


Statement = Block | Assignment | CallStatement | If | Switch | For | ForIn | Break | Continue | Return | Exit | Variable | Constant
