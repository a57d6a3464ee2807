"""What a trial reads that is not of this package: files of schemes, what they import, and their P4 programs with all includes.

Imports are found in the text, so those in functions count, too; of a package all modules do. What a scheme imports under a
name that it computes, or opens by itself, is not found.
"""

from __future__ import annotations

import ast
import importlib.util
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
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
            left += [imported for name in _imports(path) for imported in _files(name) if not _known(imported)]
    return found


def program_files(program: Path, k: int) -> set[Path]:
    """The files of a P4 program that are not the package's: itself, and whatever the preprocessor opened."""
    try:
        opened = preprocess_p4(program, {"K": str(k)}).files
    except CompileError:  # whoever compiles it tells
        opened = ()
    return {path for path in (program.resolve(), *(Path(file).resolve() for file in opened)) if not _known(path)}


def _imports(path: Path) -> Iterator[str]:
    """The first words of the names that a file imports."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def _files(name: str) -> list[Path]:
    """The files of a module, or of a package: all, because any may be imported."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    inside = [path for folder in spec.submodule_search_locations or () for path in Path(folder).rglob("*.py")]
    return [path.resolve() for path in (*inside, Path(spec.origin or "")) if path.suffix == ".py"]


def _known(path: Path) -> bool:
    """Whether it is Python's, an installed package's, or of the code whose digest is recorded anyway."""
    return any(path.resolve().is_relative_to(folder) for folder in _folders())


@cache
def _folders() -> list[Path]:
    installed = [sys.prefix, sys.base_prefix, *site.getsitepackages(), site.getusersitepackages(), *sysconfig.get_paths().values()]
    return [*(Path(folder).resolve() for folder in installed), Path("/usr/lib/python3"), *(ROOT / name for name in CODE)]
