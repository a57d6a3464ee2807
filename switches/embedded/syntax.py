"""The syntax tree of a P4_16 program. Every node carries the position where its text begins."""

from __future__ import annotations

from dataclasses import dataclass, field

from switches.embedded.text import unescape
from switches.embedded.written_types import BareType, BitsType, NamedType, Node, StackType, TupleType, TypeRef, VarbitType

__all__ = ["BareType", "BitsType", "NamedType", "Node", "StackType", "TupleType", "TypeRef", "VarbitType"]  # seen from here as well

# --- expressions


@dataclass
class Name(Node):
    name: str


@dataclass
class Number(Node):
    """An integer literal; width None for one of any size."""

    value: int
    width: int | None = None
    signed: bool = False


@dataclass
class Boolean(Node):
    value: bool


@dataclass
class String(Node):
    value: str


@dataclass
class Member(Node):
    base: Expression
    name: str


@dataclass
class ErrorMember(Node):
    name: str


@dataclass
class Index(Node):
    base: Expression
    index: Expression


@dataclass
class Slice(Node):
    base: Expression
    high: Expression
    low: Expression


@dataclass
class Unary(Node):
    operator: str
    operand: Expression


@dataclass
class Binary(Node):
    operator: str
    left: Expression
    right: Expression


@dataclass
class Conditional(Node):
    condition: Expression
    yes: Expression
    no: Expression


@dataclass
class Cast(Node):
    type: TypeRef
    operand: Expression


@dataclass
class Call(Node):
    function: Expression
    arguments: list[Expression]
    type_arguments: list[TypeRef] = field(default_factory=list)


@dataclass
class ListExpression(Node):
    """{a, b} or {x = a, y = b}; the items of the second are NamedItem."""

    items: list[Expression]


@dataclass
class NamedItem(Node):
    name: str
    value: Expression


@dataclass
class DontCare(Node):
    """`_` or `default` as a key, or `_` as an argument."""


@dataclass
class MaskKey(Node):
    value: Expression
    mask: Expression


@dataclass
class RangeKey(Node):
    low: Expression
    high: Expression


Expression = (
    Name | Number | Boolean | String | Member | ErrorMember | Index | Slice | Unary | Binary | Conditional | Cast | Call
    | ListExpression | NamedItem | DontCare | MaskKey | RangeKey
)  # fmt: skip


# --- statements


@dataclass
class Block(Node):
    statements: list[Statement]


@dataclass
class Assignment(Node):
    target: Expression
    value: Expression


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
    selector: Expression
    cases: list[SwitchCase]


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


@dataclass
class Constant(Node):
    type: TypeRef
    name: str
    value: Expression


Statement = Block | Assignment | CallStatement | If | Switch | Return | Exit | Variable | Constant


# --- declarations


@dataclass
class Annotation(Node):
    name: str
    body: list[str]

    def text(self) -> str:
        """The first word of the body; a string without its quotes."""
        word = self.body[0]
        return unescape(word[1:-1]) if word.startswith('"') else word


@dataclass
class Field(Node):
    type: TypeRef
    name: str
    annotations: list[Annotation]


@dataclass
class Typedef(Node):
    type: TypeRef
    name: str


@dataclass
class Composite(Node):
    """A header or a struct, by `kind`."""

    kind: str
    name: str
    fields: list[Field]


@dataclass
class Enum(Node):
    name: str
    underlying: TypeRef | None
    members: list[tuple[str, Expression | None]]


@dataclass
class Names(Node):
    """An `error` or a `match_kind` declaration, by `kind`."""

    kind: str
    names: list[str]


@dataclass
class Parameter(Node):
    type: TypeRef
    name: str
    direction: str  # "in", "out", "inout" or ""


@dataclass
class Instantiation(Node):
    type: str
    type_arguments: list[TypeRef]
    arguments: list[Expression]
    name: str
    annotations: list[Annotation]


@dataclass
class KeyElement(Node):
    expression: Expression
    match_kind: str
    annotations: list[Annotation]


@dataclass
class ActionRef(Node):
    name: str
    arguments: list[Expression]
    annotations: list[Annotation]


@dataclass
class Entry(Node):
    keys: list[Expression]
    action: ActionRef
    priority: int | None
    annotations: list[Annotation]


@dataclass
class Property(Node):
    name: str
    value: Expression
    constant: bool


@dataclass
class Table(Node):
    name: str
    key: list[KeyElement]
    actions: list[ActionRef]
    entries: list[Entry]
    constant_entries: bool
    properties: list[Property]
    annotations: list[Annotation]


@dataclass
class Action(Node):
    name: str
    parameters: list[Parameter]
    body: Block
    annotations: list[Annotation]


@dataclass
class Function(Node):
    result: TypeRef
    name: str
    parameters: list[Parameter]
    body: Block


@dataclass
class SelectCase(Node):
    keys: list[Expression]
    state: str


@dataclass
class Select(Node):
    expressions: list[Expression]
    cases: list[SelectCase]


@dataclass
class State(Node):
    name: str
    statements: list[Statement]
    transition: str | Select | None


@dataclass
class Parser(Node):
    name: str
    parameters: list[Parameter]
    locals: list[Declaration]
    states: list[State]
    constructor: list[Parameter]


@dataclass
class Control(Node):
    name: str
    parameters: list[Parameter]
    locals: list[Declaration]
    body: Block
    constructor: list[Parameter]


Declaration = (
    Constant | Typedef | Composite | Enum | Names | Instantiation | Table | Action | Function | Parser | Control | Variable
)


@dataclass
class Program(Node):
    declarations: list[Declaration]
