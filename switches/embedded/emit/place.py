"""Where a value is in C: a variable, and the steps from it to a field or element."""

from __future__ import annotations

from dataclasses import dataclass

from .names import c_name


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
