"""The C preprocessor over a P4 program, with the way back from its output to the author's lines."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pcpp import Action, OutputDirective, Preprocessor

from .errors import CompileError, Position
from .text import is_identifier

SYSTEM_INCLUDES = Path(__file__).parent / "include"
MARK = "\x04line"  # begins a line directive of pcpp's output; no source can hold it
LINE_DIRECTIVE = re.compile(MARK + r' (\d+)(?: "(.*)")?$')
APART = "\x05"  # stands between the question marks of `??` inside pcpp
CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")


@dataclass(frozen=True)
class Source:
    """Preprocessed text; `origin[i]` is the (file, line) that output line i (from 0) came from, `files` all that was read."""

    text: str
    origin: tuple[tuple[str, int], ...]
    files: tuple[str, ...] = ()

    def position(self, line: int | None, column: int | None) -> Position:
        """The author's position of a line (from 1) and column of the text."""
        file, original = self.origin[min((line or 1), len(self.origin)) - 1] if self.origin else ("", 0)
        return Position(file, original, column or 1)


class _P4Preprocessor(Preprocessor):
    def __init__(self) -> None:
        super().__init__()
        self.line_directive = MARK
        self.opened: list[str] = []

    def on_file_open(self, is_system_include: bool, includepath: str) -> Any:
        """Remembers what is included: a file of macros alone leaves no line."""
        file = super().on_file_open(is_system_include, includepath)
        self.opened.append(includepath)
        return file

    def parsegen(self, input: str, source: str | None = None, abssource: str | None = None) -> Iterator[Any]:
        """Hides `??` from pcpp, which replaces trigraphs, as p4c's preprocessor does not."""
        tokens: Iterator[Any] = super().parsegen(input.replace("??", f"?{APART}?"), source, abssource)
        return tokens

    def on_error(self, file: str, line: int, msg: str) -> None:
        raise CompileError(Position(file, line, 1), msg)

    def on_include_not_found(self, is_malformed: bool, is_system_include: bool, curdir: str, includepath: str) -> None:
        raise CompileError(Position(self.source or "", self.lastdirective.lineno, 1), f"cannot find include file {includepath}")

    def on_directive_unknown(self, directive, toks, ifpassthru, precedingtoks):  # type: ignore[no-untyped-def]
        if directive.value == "error":
            message = "".join(token.value for token in toks).strip().replace(APART, "")
            raise CompileError(Position(directive.source, directive.lineno, 1), f"#error {message}")
        if directive.value in ("pragma", "line"):
            raise OutputDirective(Action.IgnoreAndRemove)
        raise CompileError(Position(directive.source, directive.lineno, 1), f"unknown directive #{directive.value}")


def preprocess(program: Path, defines: dict[str, str], include_dirs: list[Path]) -> Source:
    """Expand `program`; raises CompileError for a missing file, a missing include or a bad directive."""
    if not str(program).isprintable():
        raise CompileError(None, f"the name of {program} holds a character that cannot be printed: rename the file")
    try:
        text = program.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise CompileError(None, f"cannot read {program}: {error}") from None
    _refuse_control_characters(text, str(program))
    preprocessor = _P4Preprocessor()
    for directory in [*include_dirs, SYSTEM_INCLUDES, program.parent]:
        preprocessor.add_path(str(directory))
    for name, value in defines.items():
        if not is_identifier(name):
            raise CompileError(None, f"-D {name}: a macro's name is made of letters, digits and _")
        preprocessor.define(f"{name} {value}")
    out = io.StringIO()
    try:
        preprocessor.parse(text, str(program))
        preprocessor.write(out)
    except UnicodeDecodeError as error:
        raise CompileError(
            Position(preprocessor.source or str(program), 1, 1), f"an included file is not text: {error.reason}"
        ) from None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):  # pcpp's answer to a directive without its words
        line = preprocessor.lastdirective.lineno if preprocessor.lastdirective else 1
        raise CompileError(Position(preprocessor.source or str(program), line, 1), "malformed directive") from None
    source = _strip_line_directives(out.getvalue().replace(APART, ""), str(program))
    for text, (file, line) in zip(source.text.split("\n"), source.origin, strict=True):
        _refuse_control_characters(text, file, line)
    return replace(source, files=(str(program), *dict.fromkeys(preprocessor.opened)))


def _refuse_control_characters(text: str, file: str, line: int = 1) -> None:
    if found := CONTROL.search(text):
        before = text[: found.start()]
        position = Position(file, line + before.count("\n"), found.start() - before.rfind("\n"))
        raise CompileError(position, f"control character {ord(found[0]):#04x} in the program: remove it")


def _strip_line_directives(text: str, file: str) -> Source:
    lines: list[str] = []
    origin: list[tuple[str, int]] = []
    number = 1
    for line in text.split("\n"):
        if match := LINE_DIRECTIVE.match(line):
            number, file = int(match[1]), match[2] or file
            continue
        lines.append(line)
        origin.append((file, number))
        number += 1
    return Source("\n".join(lines), tuple(origin))
