"""What the compiler says when it cannot go on."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from .text import one_line

LONGEST = 500  # characters of a message


@dataclass(frozen=True)
class Position:
    """A place in the program as its author wrote it, before the preprocessor."""

    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def __deepcopy__(self, memo: object) -> Position:
        return self  # trees are copied for each instance, and their places in the source are not


class CompileError(Exception):
    """A program that is wrong, or that uses a feature the embedded switch lacks; str() is one line."""

    def __init__(self, position: Position | None, message: str) -> None:
        self.position = position
        super().__init__(_shown(position, "error", message))


def _shown(position: Position | None, kind: str, message: str) -> str:
    if len(message) > LONGEST:
        message = f"{message[: LONGEST // 2]} … {message[-LONGEST // 2 :]}"
    return one_line(f"{position}: {kind}: {message}" if position else f"{kind}: {message}")


def warn(position: Position, message: str) -> None:
    """Write a warning of p4c to standard error; the compilation goes on."""
    print(_shown(position, "warning", message), file=sys.stderr)


class UnsupportedError(CompileError):
    """A feature that P4_16 has and the embedded switch has not."""


def unsupported(position: Position | None, feature: str) -> UnsupportedError:
    """The refusal of such a feature."""
    return UnsupportedError(position, f"not supported by the embedded switch: {feature}")
