"""What the checker knows while it goes through a program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from .. import checked
from ..errors import CompileError, Position, warn
from ..types import VOID, EnumType, Type
from .scope import Scope


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


class Checker:
    """One program's. `library` has what core.p4 and v1model.p4 declare; a program may declare the same names anew."""

    def __init__(self) -> None:
        self.library = Scope()
        self.top = Scope(self.library)
        self.errors: list[str] = ["NoError"]  # 0, wherever a program declares errors of its own
        self.no_error_declared = False  # it has its number before
        self.match_kinds: set[str] = set()
        self.where = Where()
        self.named: set[tuple[str, str]] = set()  # kinds and names that commands use
        self.warned: set[tuple[Position, str]] = set()
        self.functions: dict[tuple[int, tuple[Type, ...]], checked.Function] = {}  # by declaration and type arguments
        self.instances: dict[int, int] = {}  # how often a declaration of a parser or control was instantiated
        self.made: list[checked.Instance] = []
        self.digests: dict[Type, str] = {}
        self.exits = False

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

    def error_type(self) -> EnumType:
        return EnumType("error", tuple(self.errors))
