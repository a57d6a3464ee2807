"""The syntax tree of a P4_16 program. Every node carries the position where its text begins.

Fields that the parser leaves empty are the checker's (switches.embedded.check): it sets the type of every expression, and the value
of those that are known when compiling.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from switches.embedded.text import unescape
from switches.embedded.written_types import BareType, BitsType, NamedType, Node, StackType, TupleType, TypeRef, VarbitType

__all__ = ["BareType", "BitsType", "NamedType", "Node", "StackType", "TupleType", "TypeRef", "VarbitType"]  # seen from here as well

# --- expressions


@dataclass
class Typed(Node):
    """An expression. `constant` is its value where that is known when compiling; of an enum, the member's number."""

    type: Any = field(init=False, default=None, compare=False, repr=False)  # a switches.embedded.types.Type
    constant: int | bool | str | None = field(init=False, default=None, compare=False, repr=False)


@dataclass
class Name(Typed):
    """`symbol` is what it stands for: a checked.Variable, where it is no constant."""

    name: str
    symbol: Any = field(init=False, default=None, compare=False, repr=False)


@dataclass
class Number(Typed):
    """An integer literal; width None for one of any size."""

    value: int
    width: int | None = None
    signed: bool = False


@dataclass
class Boolean(Typed):
    value: bool


@dataclass
class String(Typed):
    value: str


@dataclass
class Known(Typed):
    """What the checker puts in the place of an expression whose value it has computed."""


@dataclass
class Member(Typed):
    base: Expression
    name: str


@dataclass
class ErrorMember(Typed):
    name: str


@dataclass
class Index(Typed):
    base: Expression
    index: Expression


@dataclass
class Slice(Typed):
    """base[high:low]; `bits` are the two numbers."""

    base: Expression
    high: Expression
    low: Expression
    bits: tuple[int, int] = field(init=False, default=(0, 0), compare=False, repr=False)


@dataclass
class Unary(Typed):
    operator: str
    operand: Expression


@dataclass
class Binary(Typed):
    operator: str
    left: Expression
    right: Expression


@dataclass
class Conditional(Typed):
    condition: Expression
    yes: Expression
    no: Expression


@dataclass
class Cast(Typed):
    """Also the conversions that P4 makes by itself (section 8.11.2): the checker adds them."""

    written: TypeRef | None
    operand: Expression


@dataclass
class Call(Typed):
    """`callee` is what is called (see check/calls.py). The checker brings arguments into the order of the parameters."""

    function: Expression
    arguments: list[Expression]
    type_arguments: list[TypeRef] = field(default_factory=list)
    callee: Any = field(init=False, default=None, compare=False, repr=False)


@dataclass
class ListExpression(Typed):
    """{a, b} or {x = a, y = b}. The items of the second are NamedItem; the checker keeps their `names` until it knows the type."""

    items: list[Expression]
    names: list[str] | None = field(init=False, default=None, compare=False, repr=False)


@dataclass
class NamedItem(Typed):
    name: str
    value: Expression


@dataclass
class DontCare(Typed):
    """`_` or `default` as a key, or `_` as an argument."""


@dataclass
class MaskKey(Typed):
    value: Expression
    mask: Expression


@dataclass
class RangeKey(Typed):
    low: Expression
    high: Expression


Expression = (
    Name | Number | Boolean | String | Known | Member | ErrorMember | Index | Slice | Unary | Binary | Conditional | Cast | Call
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
    """Over a value, or over the action that a table's apply() ran: then `table` is that call, and labels become its numbers."""

    selector: Expression
    cases: list[SwitchCase]
    table: Call | None = field(init=False, default=None, compare=False, repr=False)


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
    """A header, a struct or a header_union, by `kind`."""

    kind: str
    name: str
    fields: list[Field]
    type_parameters: list[str]


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
    default: Expression | None = None
    optional: bool = False  # marked @optional


@dataclass
class Instantiation(Node):
    type: NamedType
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
    """`body` is None for an extern function, or a method of an extern object."""

    result: TypeRef
    name: str
    parameters: list[Parameter]
    body: Block | None
    type_parameters: list[str]


@dataclass
class Extern(Node):
    """An extern object: its constructors, as functions of its own name, and its methods."""

    name: str
    type_parameters: list[str]
    methods: list[Function]


@dataclass
class BlockDeclaration(Node):
    """A parser or control without a body, which declares a type, or a package; by `kind`."""

    kind: str
    name: str
    parameters: list[Parameter]
    type_parameters: list[str]


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
    type_parameters: list[str]


@dataclass
class Control(Node):
    name: str
    parameters: list[Parameter]
    locals: list[Declaration]
    body: Block
    constructor: list[Parameter]
    type_parameters: list[str]


Declaration = (
    Constant
    | Typedef
    | Composite
    | Enum
    | Names
    | Instantiation
    | Table
    | Action
    | Function
    | Extern
    | BlockDeclaration
    | Parser
    | Control
    | Variable
)


@dataclass
class Program(Node):
    declarations: list[Declaration]
