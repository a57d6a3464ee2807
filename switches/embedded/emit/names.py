"""P4's names as C's."""

from __future__ import annotations

from ..text import is_identifier

C_KEYWORDS = set(
    """auto bool break case char const continue default do double else enum extern false float for goto if inline int long
    register restrict return short signed sizeof static struct switch true typedef union unsigned void volatile while
    valid next size_t asm typeof i386 linux unix NULL main""".split()  # noqa: SIM905 (it reads better so)
)


def c_name(name: str) -> str:
    """A P4 name as a C identifier. `$`, which GCC takes and P4 does not, keeps it apart from C's own words and macros."""
    if not is_identifier(name):
        raise ValueError(f"{name!r} is no identifier")
    return name + "$" if name in C_KEYWORDS or name.isupper() or name.startswith("_") or name.endswith("_t") else name
