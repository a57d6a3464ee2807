"""What inalab prints: text is text. A bracket in a name, a path or a message is no markup, and no character moves the cursor."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

# the Unicode pictures of what a terminal would obey (C0, DEL and C1), but the ends of lines and tabs
PICTURES = {n: 0x2400 + n for n in range(0x20) if chr(n) not in "\n\t"} | {0x7F: 0x2421} | dict.fromkeys(range(0x80, 0xA0), 0xFFFD)


def plain(text: str) -> str:
    """A text that moves no cursor, for what is not printed by a Terminal's `print`."""
    return text.translate(PICTURES)


class Terminal(Console):
    """A console that prints every string as it stands. What is to have a style is a `rich.text.Text`, or printed with `style`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(plain(text), **options)


class NotebookLine:
    """A line below a notebook's cell that changes in place."""

    def __init__(self) -> None:
        from IPython.display import display

        self.handle = display({"text/plain": ""}, raw=True, display_id=True)  # type: ignore[no-untyped-call]

    def show(self, text: str) -> None:
        """Show this instead of what was there."""
        self.handle.update({"text/plain": plain(text)}, raw=True)


def styled(*parts: str | tuple[str, str]) -> Text:
    """A line of strings, and of strings with a style of their own."""
    return Text.assemble(*(plain(p) if isinstance(p, str) else (plain(p[0]), p[1]) for p in parts))
