"""The embedded switch's compiler is read in one direction: its files import one another without a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import networkx
import pytest

COMPILER = Path("switches/embedded")
PASSES = ["syntax", "check", "emit"]  # a later one may read an earlier one's files


def module(path: Path) -> tuple[str, ...]:
    """A file by its names below the compiler's folder; a package's `__init__.py` is the package."""
    names = path.relative_to(COMPILER).with_suffix("").parts
    return names[:-1] if names[-1] == "__init__" else names


FILES = {module(path): path for path in sorted(COMPILER.rglob("*.py"))}


def imported(path: Path) -> Iterator[tuple[str, ...]]:
    """The compiler's files that a file imports, anywhere in it: in functions and for types alone, too."""
    package = path.relative_to(COMPILER).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or not 0 < node.level <= len(package) + 1:
            continue
        base = (*package[: len(package) + 1 - node.level], *(node.module.split(".") if node.module else ()))
        for alias in node.names:
            yield (*base, alias.name) if (*base, alias.name) in FILES else base


def graph() -> networkx.DiGraph[tuple[str, ...]]:
    edges = [(name, other) for name, path in FILES.items() for other in imported(path)]
    assert {other for _, other in edges} <= set(FILES)
    return networkx.DiGraph(edges)


def test_no_file_imports_one_that_imports_it() -> None:
    found = graph()
    assert found.number_of_edges() > 100
    circles = [sorted(map("/".join, files)) for files in networkx.strongly_connected_components(found) if len(files) > 1]
    assert circles == []


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_reads_nothing_of_a_later_one(name: str) -> None:
    below = networkx.descendants(graph(), (name,))
    later = PASSES[PASSES.index(name) + 1 :]
    assert [one for one in below if one[:1] and one[0] in later] == []
