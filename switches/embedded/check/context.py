"""What the checker knows while it goes through a program: names, what surrounds the code, and the rule for each node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from .. import checked
from .. import syntax as s
from ..advice import declared_nowhere
from ..errors import CompileError, Position, warn
from ..types import VOID, EnumType, Type


@dataclass(eq=False)
class Constant:
    """A `const`, or a constructor's parameter, with its value."""

    type: Type
    value: int | bool | str


@dataclass(eq=False)
class TypeName:
    """The name of a type."""

    type: Type


@dataclass(eq=False)
class Declaration:
    """A parser, control, extern object or generic type as declared, with the scope to check it in."""

    node: Any
    scope: Scope


@dataclass(eq=False)
class Overloads:
    """Functions of one name, extern or not: the number of arguments chooses."""

    nodes: list[s.Function]
    scope: Scope


class Scope:
    """A chain of name tables; looking up goes outwards."""

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.names: dict[str, Any] = {}

    def find(self, name: str) -> Any | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None

    def get(self, name: str, position: Position) -> Any:
        symbol = self.find(name)
        if symbol is None:
            raise CompileError(position, declared_nowhere(name, self._all()))
        return symbol

    def _all(self) -> list[str]:
        known: list[str] = []
        scope: Scope | None = self
        while scope is not None:
            known += scope.names
            scope = scope.parent
        return known

    def declare(self, name: str, symbol: Any, position: Position) -> None:
        if name in self.names:
            raise CompileError(position, f"{name} is declared twice")
        self.names[name] = symbol


@dataclass(frozen=True)
class Where:
    """What surrounds the code being checked: `role` is the block of the package, empty where nothing applies it.

    `path` are the names of the instances around it, and `shown` what the control plane calls these.
    """

    role: str = ""
    inside: str = ""  # "parser", "control", "action" or "function"
    result: Type = VOID  # of the function
    in_loop: bool = False
    path: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rules:
    """What checks a node, by its class.

    Expressions have calls in them, calls the bodies of functions, and bodies expressions again. The rules meet here, so that the
    files which have them import one another in one direction.
    """

    expressions: dict[type, Callable[[Checker, Any, Scope, Type | None], s.Expression]]
    statements: dict[type, Callable[[Checker, Any, Scope], None]]
    declarations: dict[type, Callable[[Checker, Any, Scope], Any]]


class Checker:
    """One program's. `library` has what core.p4 and v1model.p4 declare; a program may declare the same names anew."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.library = Scope()
        self.top = Scope(self.library)
        self.errors: list[str] = ["NoError"]  # 0, wherever a program declares errors of its own
        self.no_error_declared = False  # it has its number before
        self.match_kinds: set[str] = set()
        self.where = Where()
        self.named: set[tuple[str, str]] = set()  # kinds and names that commands use
        self.warned: set[tuple[Position, str]] = set()
        self.functions: dict[tuple[object, ...], checked.Function] = {}  # by declaration, type arguments and extern objects
        self.instances: dict[int, int] = {}  # how often a declaration of a parser or control was instantiated
        self.made: list[checked.Instance] = []
        self.awaited: dict[checked.Instance, Callable[[dict[str, checked.ExternObject]], None]] = {}  # see blocks.instance
        self.digests: dict[Type, str] = {}
        self.exits = False

    def expression(self, node: s.Expression, scope: Scope, expected: Type | None = None) -> s.Expression:
        """The expression with its type, and with its parts checked; `expected` gives a list its type."""
        rule = self.rules.expressions.get(type(node))
        if rule is None:
            raise CompileError(node.position, "an expression is needed here")
        return rule(self, node, scope, expected)

    def statement(self, node: s.Statement, scope: Scope) -> None:
        """Check a statement, and write into it what was found."""
        rule = self.rules.statements.get(type(node))
        if rule is None:
            raise CompileError(node.position, "a statement is needed here")
        rule(self, node, scope)

    def declare(self, node: s.Declaration, scope: Scope) -> Any:
        """Enter a declaration into a scope; what it has made there, if a block has it for its own."""
        rule = self.rules.declarations.get(type(node))
        if rule is None:
            raise CompileError(node.position, "this cannot stand here")
        return rule(self, node, scope)

    @contextmanager
    def at(self, **changes: object) -> Iterator[None]:
        """Check what stands inside with another `where`."""
        before, self.where = self.where, replace(self.where, **changes)  # type: ignore[arg-type]
        try:
            yield
        finally:
            self.where = before

    def warn(self, position: Position, message: str) -> None:
        """Write a warning, once."""
        if (position, message) not in self.warned:
            self.warned.add((position, message))
            warn(position, message)

    def name_once(self, kind: str, name: str, position: Position) -> None:
        """Refuse a name that commands would find twice."""
        if (kind, name) in self.named:
            raise CompileError(position, f"commands could not tell two of the program's {kind}s apart: both are named {name}")
        self.named.add((kind, name))

    def unnamed(self, stem: str) -> str:
        """A name for what a program leaves without one, numbered as p4c does."""
        number = sum(name.startswith(f"{stem}_") for _, name in self.named)
        return f"{stem}_{number}"

    def control_name(self, name: str, annotations: Sequence[s.Annotation]) -> str:
        """What the control plane calls a thing: the instances' names, then its @name or name; a @name with a leading dot is used
        alone."""
        for annotation in annotations:
            if annotation.name == "name" and annotation.body:
                name = annotation.text()
                if not name or name.startswith("#") or any(ch.isspace() for ch in name):
                    raise CompileError(
                        annotation.position, f"@name({name!r}): a command cannot name this, use a name without spaces"
                    )
        return name[1:] if name.startswith(".") else ".".join((*self.where.shown, name))

    def error_type(self) -> EnumType:
        return EnumType("error", tuple(self.errors))
