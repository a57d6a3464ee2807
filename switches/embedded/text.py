"""Text of a P4 program (strings, names, file names) as data in generated C."""

from __future__ import annotations

import re

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def is_identifier(text: str) -> bool:
    """True for what P4 takes as a name (section 6.4.1)."""
    return IDENTIFIER.match(text) is not None


def unescape(written: str) -> str:
    r"""The text of a string literal without its quotes: \" and \\ are the only escapes (section 6.4.3.4)."""
    return re.sub(r"\\([\"\\])", r"\1", written)


def c_string(text: str) -> str:
    """A C string literal of exactly this text: every byte outside plain ASCII, quotes, backslashes and `?` in octal."""
    data = text.encode("utf-8", "surrogateescape")
    return '"' + "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in data) + '"'


def c_comment(text: str) -> str:
    """Text for a `//` comment of C: nothing in it ends or continues the line."""
    return re.sub(r"[^ -~]|[\\?]", lambda match: f"<{ord(match[0]):x}>", text)


def one_line(text: str) -> str:
    """Text for a message: control characters, and bytes that are no UTF-8, as escapes."""
    return "".join(ch if ch.isprintable() else repr(ch)[1:-1] for ch in text)
