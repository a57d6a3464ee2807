"""From a P4 program to the C that the embedded switch runs: preprocess, parse, check, emit."""

from __future__ import annotations

import sys
from pathlib import Path

from switches.embedded.check import check
from switches.embedded.emit.program import emit
from switches.embedded.errors import CompileError, Position
from switches.embedded.parse import parse
from switches.embedded.preprocess import preprocess

DEEPEST = 20_000  # Python frames


def compile_p4(program: Path, defines: dict[str, str] | None = None, include_dirs: list[Path] | None = None) -> str:
    """The C text of a v1model program. Raises CompileError, whose text is `file:line:column: error: …`."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), DEEPEST))
    try:
        source = preprocess(program, defines or {}, include_dirs or [])
        return emit(check(parse(source), program), program.name)
    except RecursionError:
        raise CompileError(
            Position(str(program), 1, 1), "the program is nested too deeply, or includes or contains itself"
        ) from None
    except (AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        what = f"the compiler failed ({type(error).__name__}: {error}), which is a defect of it"
        raise CompileError(Position(str(program), 1, 1), what) from error
