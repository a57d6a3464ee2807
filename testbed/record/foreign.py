"""What a trial reads that is not of this package: files of schemes, what they import, and their P4 programs with all includes.

Imports are found in the text, so those in functions count, too. What a scheme imports under a name that it computes, or opens
by itself, is not found.
"""

from __future__ import annotations

import ast
import importlib.util
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from hosts.plugins import is_file
from schemes.scheme import Scheme
from switches.embedded.compiler import preprocess_p4
from switches.embedded.errors import CompileError
from testbed.record.provenance import CODE, digest_of
from testbed.record.runs import ROOT


def read_by(schemes: Iterable[Scheme], k: int, *files: Path) -> dict[str, str]:
    """SHA-256 of each foreign file, by path, that trials of these schemes read whose packets carry k integers, and these files."""
    found = {path for file in files if not _known(file) for path in modules(file)}
    for scheme in schemes:
        if is_file(scheme.source):
            found |= modules(Path(scheme.source))
        if scheme.program is not None and not _known(scheme.program):
            found |= program_files(scheme.program, k)
    return {str(path): digest_of(path) for path in sorted(found)}


def modules(source: Path) -> set[Path]:
    """A file of Python, and the foreign ones that it imports, directly or not."""
    found, left = set(), [source.resolve()]
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += [file.resolve() for file in _imports(path) if not _known(file)]
    return found


def program_files(program: Path, k: int) -> set[Path]:
    """The files of a P4 program that are not the package's: itself, and whatever the preprocessor opened."""
    try:
        opened = preprocess_p4(program, {"K": str(k)}).files
    except CompileError:  # whoever compiles it tells
        opened = ()
    return {path for path in (program.resolve(), *(Path(file).resolve() for file in opened)) if not _known(path)}


def _imports(path: Path) -> Iterator[Path]:
    """The files of the modules that a file imports; of the packages that they are in, too."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield from _files(_place(name.name.partition(".")[0]), name.name.split(".")[1:])
        elif isinstance(node, ast.ImportFrom):
            first, *rest = (node.module or "").split(".")
            if node.level:  # from .a import b
                above, rest = path.parents[node.level - 1], [word for word in (first, *rest) if word]
            for name in node.names:
                yield from _files(above if node.level else _place(first), [*rest, name.name])


def _place(name: str) -> Path | None:
    """The file of a module, or the folder of a package, that is no known one."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    place = Path(next(iter(spec.submodule_search_locations or ()), spec.origin or "."))
    return None if _known(place) else place


def _files(place: Path | None, words: Sequence[str]) -> Iterator[Path]:
    """The files on the way from a package's folder to a module below it, or to a name in one."""
    if place is None:
        return
    for word in (None, *words):
        place = place / word if word else place
        yield from (
            file for file in (place, place.with_suffix(".py"), place / "__init__.py") if file.suffix == ".py" and file.is_file()
        )


def _known(path: Path) -> bool:
    """Whether it is Python's, an installed package's, or of the code whose digest is recorded anyway."""
    return any(path.resolve().is_relative_to(folder) for folder in _folders())


@cache
def _folders() -> list[Path]:
    installed = [sys.prefix, sys.base_prefix, *site.getsitepackages(), site.getusersitepackages(), *sysconfig.get_paths().values()]
    return [*(Path(folder).resolve() for folder in installed), Path("/usr/lib/python3"), *(ROOT / name for name in CODE)]
