"""Declarations: of types, functions, tables, and blocks (sections 7, 10, 13 and 14)."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..text import unescape
from .expressions import Expression, NamedType, Node, TypeRef
from .statements import Block, Constant, Statement, Variable


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
    annotations: list[Annotation]


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
    annotations: list[Annotation] = field(default_factory=list)

    @property
    def optional(self) -> bool:
        """Whether an argument may be left out."""
        return any(a.name == "optional" for a in self.annotations)


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
    annotations: list[Annotation]


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
class ValueSet(Node):
    """value_set<type>(size) name, of a parser."""

    type: TypeRef
    size: Expression
    name: str
    annotations: list[Annotation]


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
    | ValueSet
)


@dataclass
class Program(Node):
    declarations: list[Declaration]
