"""The C file in the making: its sections, its names, where the program's variables are, and the rule for each node."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import checked
from .. import syntax as s
from ..errors import Position
from ..text import c_comment, c_string, is_identifier
from ..types import VOID, Type

C_KEYWORDS = set(
    """auto bool break case char const continue default do double else enum extern false float for goto if inline int long
    register restrict return short signed sizeof static struct switch true typedef union unsigned void volatile while
    valid next size_t asm typeof i386 linux unix NULL main""".split()  # noqa: SIM905 (it reads better so)
)


def c_name(name: str) -> str:
    """A P4 name as a C identifier. `$`, which GCC takes and P4 does not, keeps it apart from C's own words and macros."""
    if not is_identifier(name):
        raise ValueError(f"{name!r} is no identifier")
    return name + "$" if name in C_KEYWORDS or name.isupper() or name.startswith("_") or name.endswith("_t") else name


@dataclass(frozen=True)
class Place:
    """`root` is a C variable, or `(*pointer)`; a step is a field's name or the text of an index."""

    root: str
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.root + "".join(self.path)

    def field(self, name: str) -> Place:
        """A field that the program names."""
        return Place(self.root, (*self.path, f".{c_name(name)}"))

    def sibling(self, name: str) -> Place:
        """Another field of the struct that this is a field of."""
        return Place(self.root, self.path[:-1]).field(name)

    def part(self, name: str) -> Place:
        """A member of the C struct that the program does not name."""
        return Place(self.root, (*self.path, f".{name}"))

    def element(self, index: str) -> Place:
        """An element of a header stack."""
        return Place(self.root, (*self.path, f".at[{index}]"))


@dataclass(frozen=True)
class Value:
    """An expression in C. What runs later does not change a `fixed` one; `place` is where it is kept, if it is kept anywhere."""

    text: str
    type: Type
    fixed: bool = False
    place: Place | None = None


DONE = Value("", VOID)


@dataclass
class Loop:
    """A loop being written: C labels behind its body and behind itself, and whether anything goes there."""

    next: str
    end: str
    continued: bool = False
    broken: bool = False


# what __init__.py and blocks.py declare themselves
OWN_NAMES = "phv at end out payload packet_length payload_length exited error mark_to_drop parser_steps loop_turns"
PROGRAM_H = Path(__file__).parent.parent / "runtime" / "program.h"
C_LIBRARY = (
    "memchr memccpy memcmp memset memmem stpcpy strcat strcpy strdup strlen strcmp index rindex bcmp bcopy bzero ffs swab exit"
)


@dataclass(frozen=True)
class Rules:
    """What writes a node, by its class, and a call, by the class of what is called.

    Expressions have calls in them, calls the bodies of functions, and bodies expressions again. The rules meet here, so that the
    files which have them import one another in one direction.
    """

    expressions: dict[type, Callable[[Context, Any], Value]]
    statements: dict[type, Callable[[Context, Any], None]]
    calls: dict[type, Callable[[Context, s.Call], Value]]


class Context:
    """Collects C text: `emit` writes lines of the function that is being written, `function` opens another."""

    def __init__(self, program: checked.Program, rules: Rules, traced: bool = False) -> None:
        self.rules = rules
        self.types: list[str] = []
        self.globals: list[str] = []
        self.functions: list[str] = []
        self.lines: list[str] = []
        self.depth = 1
        self.taken: set[str] = set(re.findall(r"[A-Za-z_]\w*", PROGRAM_H.read_text())) | set(f"{C_LIBRARY} {OWN_NAMES}".split())
        self.temporaries = 0
        self.errors, self.exits, self.digests = program.errors, program.exits, program.digests
        self.places: dict[checked.Variable, Place] = {}
        self.type_names: dict[str, str] = {}  # C types of structs and tuples, by P4's names
        self.declared: set[str] = set()  # C types and helpers that stand once
        self.named: dict[object, str] = {}  # C functions of actions, functions, tables and instances
        self.objects: dict[checked.ExternObject, str] = {}  # C arrays of registers and counters
        self.leave = "return;"  # what leaves the function that is being written, when something exits
        self.loops: list[Loop] = []  # around what is being written, the innermost last
        self.old = DONE  # what the target of the assignment that is being written was before
        self.tables: list[str] = []
        self.entries: list[str] = []  # commands that add those of the program
        self.registers: list[str] = []
        self.counters: list[str] = []
        self.meters: list[str] = []
        self.crcs: list[str] = []  # custom hashes
        self.hashes = 0
        self.digest_lists: dict[str, str] = {}  # by their names
        self.value_sets: list[str] = []
        self.action_profiles: list[str] = []
        self.traced = traced
        self.trace_points: list[str] = []  # see `step`

    def expression(self, node: s.Expression) -> Value:
        """An expression's value. What it does beside that is written now."""
        kind = s.Known if node.constant is not None else type(node)
        return self.rules.expressions[kind](self, node)

    def statement(self, node: s.Statement) -> None:
        """Write a statement."""
        self.rules.statements[type(node)](self, node)

    def call(self, node: s.Call) -> Value:
        """The value of a call. What it does beside that is written now."""
        called = node.callee.target if isinstance(node.callee, checked.Apply) else node.callee
        return self.rules.calls[type(called)](self, node)

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def emit_all(self, lines: list[str]) -> None:
        """Emit lines that `apart` took, at this depth."""
        for line in lines:
            self.emit(line)

    def apart(self, write: Callable[[], Value]) -> tuple[Value, list[str]]:
        """A value, and the lines that must run before it, kept apart."""
        lines, depth = self.lines, self.depth
        self.lines, self.depth = [], 0
        value = write()
        made = self.lines
        self.lines, self.depth = lines, depth
        return value, made

    def unique(self, name: str) -> str:
        """A C identifier near `name` that nothing else has."""
        base = candidate = c_name(name)
        n = 2
        while candidate in self.taken:
            candidate, n = f"{base}_{n}", n + 1
        self.taken.add(candidate)
        return candidate

    def temporary(self, stem: str = "t") -> str:
        self.temporaries += 1
        return f"{stem}${self.temporaries}"

    @contextmanager
    def indented(self, opening: str, closing: str = "}") -> Iterator[None]:
        self.emit(opening)
        self.depth += 1
        yield
        self.depth -= 1
        self.emit(closing)

    @contextmanager
    def function(self, signature: str, comment: str, leave: str = "return;") -> Iterator[None]:
        """Everything emitted inside becomes the body of a C function, placed after all it calls."""
        lines, depth, before, loops, old = self.lines, self.depth, self.leave, self.loops, self.old
        self.lines, self.depth, self.leave, self.loops = [], 1, leave, []
        yield
        body = "".join(line + "\n" for line in self.lines)
        self.lines, self.depth, self.leave, self.loops, self.old = lines, depth, before, loops, old
        self.functions.append(f"// {c_comment(comment)}\n{signature} {{\n{body}}}\n")

    def check_exit(self) -> None:
        """After something that may have executed `exit`: leave as well."""
        if self.exits:
            with self.indented("if (exited) {"):
                self.emit(self.leave)

    def step(self, position: Position, written: str) -> None:
        """Record that the packet passes here, and what is written. Only programs compiled with a trace do."""
        if self.traced:
            self.emit(f"trace_step({len(self.trace_points)});")
            self.trace_points.append(f"{{{c_string(position.file)}, {position.line}, {c_string(written)}}}")

    def error(self, name: str) -> int:
        """The number of an error."""
        return self.errors.index(name)
