"""What the checker makes of a program, for the emitter: every parser and control as often as it is instantiated, with its bodies as
checked syntax trees (switches.embedded.syntax)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from . import syntax as s
from .errors import Position
from .types import ExternType, Header, Struct, Type

SELECTOR = "selector"  # the match kind of what an action_selector hashes
PROFILES = ("action_profile", "action_selector")  # the extern objects that implement tables


@dataclass(eq=False)
class Variable:
    """A parameter or a local variable. `lasting` ones belong to an instance of a block, and can be seen from all of it."""

    name: str
    type: Type
    assignable: bool = True
    direction: str = ""
    lasting: bool = False
    annotations: list[s.Annotation] = field(default_factory=list)
    default: s.Expression | None = None  # of a parameter


@dataclass(eq=False)
class Action:
    """`control_name` is what the control plane calls it."""

    name: str
    control_name: str
    path: tuple[str, ...]
    position: Position
    annotations: list[s.Annotation] = field(default_factory=list)
    parameters: list[Variable] = field(default_factory=list)
    body: s.Block | None = None  # None while it is being checked

    @property
    def data(self) -> list[Variable]:
        """The parameters that the control plane sets."""
        return [p for p in self.parameters if not p.direction]


@dataclass(eq=False)
class Function:
    """A function, with its type parameters bound, and the extern objects that it takes."""

    name: str
    position: Position
    result: Type
    objects: list[ExternObject] = field(default_factory=list)
    parameters: list[Variable] = field(default_factory=list)
    body: s.Block | None = None  # None while it is being checked


@dataclass(eq=False)
class ExternObject:
    """A register, counter, meter …; `arguments` are its constructor's, known when compiling."""

    type: ExternType
    arguments: list[s.Expression]
    name: str
    control_name: str
    path: tuple[str, ...]
    position: Position
    annotations: list[s.Annotation] = field(default_factory=list)
    reads: list[s.Expression] = field(default_factory=list)  # where a direct meter's colour is read to
    tables: list[Table] = field(default_factory=list)  # those that an action profile implements


@dataclass
class Key:
    """A field of a table's key; `name` is the control plane's, `text` how the program writes it."""

    name: str
    text: str
    kind: str
    expression: s.Expression
    position: Position
    annotations: list[s.Annotation]


@dataclass
class ListedAction:
    """An action of a table; `bound` are the arguments of its parameters that have a direction."""

    action: Action
    bound: list[s.Expression]
    table_only: bool = False
    default_only: bool = False


@dataclass(eq=False)
class ValueSet:
    """A set of values that the control plane fills, for select; `fields` are the parts of a value, with `names` in a struct."""

    name: str
    control_name: str
    path: tuple[str, ...]
    fields: list[Type]
    names: list[str]
    size: int
    position: Position
    annotations: list[s.Annotation]


@dataclass(frozen=True)
class Pattern:
    """The values that a key may have: all (`any`), value &&& mask, low .. high (`range`), or those of a value set (`set`)."""

    kind: str  # "any", "mask", "range" or "set"
    low: int = 0  # or the value
    high: int = 0  # or the mask
    values: ValueSet | None = None


@dataclass
class Entry:
    """`keys` has a Pattern for each field; the entry of the lowest precedence that matches counts."""

    keys: list[Pattern]
    action: int
    data: list[int]
    precedence: int
    position: Position


@dataclass(eq=False)
class Table:
    """`entries` are the program's, in the order of their precedence; `default` is the number of an action."""

    name: str
    control_name: str
    path: tuple[str, ...]
    position: Position
    annotations: list[s.Annotation] = field(default_factory=list)
    key: list[Key] = field(default_factory=list)
    actions: list[ListedAction] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    constant_entries: bool = False  # for the control plane
    default: int = 0
    default_data: list[int] = field(default_factory=list)
    constant_default: bool = False
    size: int = 0
    counter: ExternObject | None = None
    meter: ExternObject | None = None
    ages: bool = False  # entries have timeouts
    profile: ExternObject | None = None  # the action_profile or action_selector whose members its entries refer to

    @property
    def keys(self) -> list[Key]:
        """What entries are looked up by."""
        return [one for one in self.key if one.kind != SELECTOR]

    @property
    def selectors(self) -> list[Key]:
        """What an action_selector hashes."""
        return [one for one in self.key if one.kind == SELECTOR]


@dataclass
class Case:
    """A case of a select: a Pattern for each of its expressions, or one value set for all."""

    keys: list[Pattern]
    state: str
    position: Position


@dataclass
class State:
    """`select` and `cases` are empty where the transition goes to `next` alone."""

    name: str
    position: Position
    statements: list[Any]
    next: str = ""
    select: list[s.Expression] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)


@dataclass(eq=False)
class Instance:
    """A parser or control that is instantiated; a parser has states and no body. `role` is the block of the package it serves."""

    kind: str
    name: str
    path: tuple[str, ...]
    position: Position
    role: str
    parameters: list[Variable] = field(default_factory=list)
    variables: list[s.Variable] = field(default_factory=list)
    externs: list[ExternObject] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    value_sets: list[ValueSet] = field(default_factory=list)
    body: s.Block | None = None
    states: list[State] = field(default_factory=list)
    applied: list[s.Call] = field(default_factory=list)  # where it is applied


@dataclass
class ControllerHeader:
    """A header with @controller_header: what a packet from a controller, or to it, begins with."""

    name: str
    type: Header
    position: Position
    annotations: list[s.Annotation]
    fields: list[s.Field]


@dataclass
class Program:
    """A V1Switch: parser, verify checksum, ingress, egress, compute checksum, deparser."""

    blocks: list[Instance]
    headers: Struct
    metadata: Struct
    standard: Struct
    externs: list[ExternObject]  # outside all blocks
    errors: list[str]  # by number
    instances: list[Instance] = field(default_factory=list)  # the blocks, and what is instantiated in them
    controller_headers: list[ControllerHeader] = field(default_factory=list)
    digests: dict[Type, str] = field(default_factory=dict)  # their names
    exits: bool = False  # whether any statement is `exit`


# --- what a call calls, beside an Action or a Function


@dataclass
class Apply:
    """apply() of a table or of an instance."""

    target: Table | Instance


@dataclass
class BuiltIn:
    """A method of a header or header stack: isValid, push_front …"""

    name: str


@dataclass
class ExternCall:
    """An extern function, or a method of an extern object or packet."""

    name: str
    object: ExternObject | Variable | None = None
