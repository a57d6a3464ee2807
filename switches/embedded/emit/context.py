"""The C file in the making: its sections, its names, and where the program's variables are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .. import checked
from ..text import c_comment
from ..types import VOID, Type
from .names import c_name
from .place import Place

# what program.py and parsers.py declare themselves
OWN_NAMES = "phv at end out payload packet_length payload_length exited error mark_to_drop parser_steps loop_turns"
PROGRAM_H = Path(__file__).parent.parent / "runtime" / "program.h"
C_LIBRARY = (
    "memchr memccpy memcmp memset memmem stpcpy strcat strcpy strdup strlen strcmp index rindex bcmp bcopy bzero ffs swab exit"
)


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


class Context:
    """Collects C text: `emit` writes lines of the function that is being written, `function` opens another."""

    def __init__(self, program: checked.Program, traced: bool = False) -> None:
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
        self.value_sets: list[str] = []
        self.action_profiles: list[str] = []
        self.traced = traced
        self.trace_points: list[str] = []  # see trace.py

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

    def error(self, name: str) -> int:
        """The number of an error."""
        return self.errors.index(name)
