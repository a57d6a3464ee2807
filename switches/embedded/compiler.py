"""From a P4 program to the C that the embedded switch runs: preprocess, parse, check, emit."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import checked
from .check import check
from .emit import emit
from .errors import CompileError, Position
from .parse import parse
from .preprocess import Source, preprocess

DEEPEST = 20_000  # Python frames


def compile_p4(
    program: Path, defines: dict[str, str] | None = None, include_dirs: list[Path] | None = None, traced: bool = False
) -> str:
    """The C text of a v1model program, which records its steps if it is `traced`.

    Raises CompileError, whose text is `file:line:column: error: …`.
    """
    return compile_source(preprocess_p4(program, defines, include_dirs), program, traced)


def preprocess_p4(program: Path, defines: dict[str, str] | None = None, include_dirs: list[Path] | None = None) -> Source:
    """A program with all that it includes and macros expanded: whatever its C depends on but `traced`. Raises CompileError."""
    with _defects(program):
        return preprocess(program, defines or {}, include_dirs or [])


def compile_source(source: Source, program: Path, traced: bool = False) -> str:
    """The C text of what `preprocess_p4` made of a program. Raises CompileError."""
    with _defects(program):
        return emit(check(parse(source), program), program.name, traced)


def check_p4(program: Path, defines: dict[str, str] | None = None, include_dirs: list[Path] | None = None) -> checked.Program:
    """A v1model program with its names, types and constants found. Raises CompileError."""
    with _defects(program):
        return check(parse(preprocess_p4(program, defines, include_dirs)), program)


@contextmanager
def _defects(program: Path) -> Iterator[None]:
    """What a program must not be told as a traceback: too deep nesting, and mistakes of the compiler's own."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), DEEPEST))
    try:
        yield
    except RecursionError:
        raise CompileError(
            Position(str(program), 1, 1), "the program is nested too deeply, or includes or contains itself"
        ) from None
    except (AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        what = f"the compiler failed ({type(error).__name__}: {error}), which is a defect of it"
        raise CompileError(Position(str(program), 1, 1), what) from error
