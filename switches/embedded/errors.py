"""What the compiler says when it cannot go on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Position:
    """A place in the program as its author wrote it, before the preprocessor."""

    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class CompileError(Exception):
    """A program that is wrong, or that uses a feature the embedded switch lacks; str() is one line."""

    def __init__(self, position: Position | None, message: str) -> None:
        self.position = position
        super().__init__(f"{position}: error: {message}" if position else f"error: {message}")


def unsupported(position: Position | None, feature: str) -> CompileError:
    """The refusal of a feature that P4_16 has and the embedded switch has not."""
    return CompileError(position, f"not supported by the embedded switch: {feature}")
