"""What a trial reads beside the code whose digest is recorded: files of schemes, what they import, their P4 programs and includes.

Imports are found in the text, so those in functions count, too. What a scheme imports under a name that it computes, or opens
by itself, is not found.
"""

from __future__ import annotations

import ast
import importlib.util
import site
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from inalab.hosts.plugins import is_file
from inalab.schemes.scheme import Scheme
from inalab.switches.embedded.compiler import preprocess_p4
from inalab.switches.embedded.errors import CompileError
from inalab.testbed.record.provenance import digest_of
from inalab.testbed.record.runs import ROOT

BY_NAME = ("import_module", "__import__")  # functions that import


class Foreign:
    """Finds files that are neither Python's, nor installed, nor among those `covered` by a digest: names below the repository."""

    def __init__(self, covered: Sequence[str]) -> None:
        self.known = [*_installed(), *(ROOT / name for name in covered)]

    def read_by(self, schemes: Iterable[Scheme], k: int, *files: Path) -> dict[str, str]:
        """SHA-256 of each such file, by path, that trials of these schemes read whose packets carry k integers, and these files."""
        found = {path for file in files if not self._knows(file) for path in self.modules(file)}
        for scheme in schemes:
            if is_file(scheme.source):
                found |= self.modules(Path(scheme.source))
            if scheme.program is not None and not self._knows(scheme.program):
                found |= self.program_files(scheme.program, k)
        return {str(path): digest_of(path) for path in sorted(found)}

    def modules(self, source: Path) -> set[Path]:
        """A file of Python, and those that it imports, directly or not."""
        found, left = set(), [source.resolve()]
        while left:
            path = left.pop()
            if path not in found:
                found.add(path)
                left += [file.resolve() for file in self._imports(path) if not self._knows(file)]
        return found

    def program_files(self, program: Path, k: int) -> set[Path]:
        """A P4 program's file, and whatever the preprocessor opens for it."""
        try:
            opened = preprocess_p4(program, {"K": str(k)}).files
        except CompileError:  # whoever compiles it tells
            opened = ()
        return {path for path in (program.resolve(), *(Path(file).resolve() for file in opened)) if not self._knows(path)}

    def _imports(self, path: Path) -> Iterator[Path]:
        """The files of the modules that a file imports; of the packages that they are in, too."""
        try:
            tree = ast.parse(path.read_bytes()) if path.suffix == ".py" else ast.Module([], [])
        except (SyntaxError, ValueError):  # perhaps for another Python, and imported where that does not matter
            return
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for name in node.names:
                    yield from self._module(name.name)
            elif isinstance(node, ast.ImportFrom):
                words = [word for word in (node.module or "").split(".") if word]
                for name in node.names:
                    if node.level:  # from .a import b
                        yield from _files(path.parents[node.level - 1], [*words, name.name])
                    else:
                        yield from self._module(".".join([*words, name.name]))
            elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                called = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if called in BY_NAME and isinstance(node.args[0].value, str):
                    yield from self._module(node.args[0].value)

    def _module(self, name: str) -> Iterator[Path]:
        """The files of a module, or of what a name in one may be."""
        first, *rest = name.split(".")
        try:
            spec = importlib.util.find_spec(first)
        except (ImportError, ValueError):
            return
        if spec is not None:
            place = Path(next(iter(spec.submodule_search_locations or ()), spec.origin or "."))
            if not self._knows(place):
                yield from _files(place, rest)

    def _knows(self, path: Path) -> bool:
        return any(path.resolve().is_relative_to(folder) for folder in self.known)


def _files(place: Path, words: Sequence[str]) -> Iterator[Path]:
    """The files on the way from a module's file, or a package's folder, to a module below it, or to a name in one."""
    if place.is_file():  # also one that is compiled
        yield place
        return
    for word in ("", *words):
        place = place / word
        yield from (file for file in (place.with_name(f"{place.name}.py"), place / "__init__.py") if file.is_file())
        yield from place.parent.glob(f"{place.name}.*.so")


@cache
def _installed() -> list[Path]:
    """Where Python and packages are."""
    paths = sysconfig.get_paths()
    folders = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [*site.getsitepackages(), site.getusersitepackages(), "/usr/lib/python3"]
    return [Path(folder).resolve() for folder in folders]
