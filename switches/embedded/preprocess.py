"""The C preprocessor over a P4 program, with the way back from its output to the author's lines."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path

from pcpp import Action, OutputDirective, Preprocessor

from switches.embedded.errors import CompileError, Position

SYSTEM_INCLUDES = Path(__file__).parent / "include"
LINE_DIRECTIVE = re.compile(r'^#line (\d+)(?: "(.*)")?')


@dataclass(frozen=True)
class Source:
    """Preprocessed text; `origin[i]` is the (file, line) that output line i (from 0) came from."""

    text: str
    origin: tuple[tuple[str, int], ...]

    def position(self, line: int | None, column: int | None) -> Position:
        """The author's position of a line (from 1) and column of the text."""
        file, original = self.origin[min((line or 1), len(self.origin)) - 1] if self.origin else ("", 0)
        return Position(file, original, column or 1)


class _P4Preprocessor(Preprocessor):
    def __init__(self) -> None:
        super().__init__()
        self.line_directive = "#line"

    def on_error(self, file: str, line: int, msg: str) -> None:
        raise CompileError(Position(file, line, 1), msg)

    def on_include_not_found(self, is_malformed: bool, is_system_include: bool, curdir: str, includepath: str) -> None:
        raise CompileError(Position(self.source or "", self.lastdirective.lineno, 1), f"cannot find include file {includepath}")

    def on_directive_unknown(self, directive, toks, ifpassthru, precedingtoks):  # type: ignore[no-untyped-def]
        if directive.value == "error":
            message = "".join(token.value for token in toks).strip()
            raise CompileError(Position(directive.source, directive.lineno, 1), f"#error {message}")
        if directive.value in ("pragma", "line"):
            raise OutputDirective(Action.IgnoreAndRemove)
        raise CompileError(Position(directive.source, directive.lineno, 1), f"unknown directive #{directive.value}")


def preprocess(program: Path, defines: dict[str, str], include_dirs: list[Path]) -> Source:
    """Expand `program`; raises CompileError for a missing file, a missing include or a bad directive."""
    try:
        text = program.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CompileError(None, f"cannot read {program}: {error}") from None
    preprocessor = _P4Preprocessor()
    for directory in [program.parent, *include_dirs, SYSTEM_INCLUDES]:
        preprocessor.add_path(str(directory))
    for name, value in defines.items():
        preprocessor.define(f"{name} {value}")
    out = io.StringIO()
    try:
        preprocessor.parse(text, str(program))
        preprocessor.write(out)
    except UnicodeDecodeError as error:
        raise CompileError(
            Position(preprocessor.source or str(program), 1, 1), f"an included file is not text: {error.reason}"
        ) from None
    return _strip_line_directives(out.getvalue(), str(program))


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
