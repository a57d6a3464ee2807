"""Loops over the packets of a batch: Python functions over numpy arrays that numba compiles to machine code.

Each has a signature, so it is compiled when its module is imported, before workers are forked, and takes nothing else.
Machine code is kept by the content of the module and of those that it imports from here. Numba itself keeps it by path and
time: it does not notice that an imported constant has changed, and compiles again in every clone.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import importlib
import logging
import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "inalab"  # in which the folders of ROOT are imported
LOOPS = ("hosts", "testbed/simulator")  # folders of ROOT whose modules have compiled loops
PREFIXES = tuple(f"{PACKAGE}.{folder.replace('/', '.')}." for folder in LOOPS)
log = logging.getLogger("inalab")
OPTIONS: Any = {"nogil": True, "error_model": "numpy"}
Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(signature: Any, inline: bool = False) -> Callable[[Function], Function]:
    """Decorate a function of a module below LOOPS; `signature` is numba's, as a string ("f8(i8[::1], b1)") or made of its types.

    `inline`: it becomes part of the functions that call it, as is worth while for those that are short and take many arrays.

    Indices are checked where numba.config.BOUNDSCHECK is set before the module is imported, as NUMBA_BOUNDSCHECK=1 does.
    """

    def compile_now(function: Function) -> Function:
        loop: Any = numba.njit(forceinline=inline, **OPTIONS)(function)
        folder = _folder(Path(function.__code__.co_filename), _checked())
        if folder is None:
            _tell(function)
            loop.compile(signature)
        else:
            loop._cache = _Kept(function)
            with _alone(folder):
                loop.compile(signature)
        loop.disable_compile()
        return cast(Function, loop)

    return compile_now


def compile_all(*folders: str) -> None:
    """Compile the loops of these folders of ROOT, by default of all, on every processor that this process may use."""
    modules = [".".join((PACKAGE, *path.relative_to(ROOT).with_suffix("").parts)) for path in _modules(*(folders or LOOPS))]
    count = min(len(os.sched_getaffinity(0)), len(modules))
    fork = multiprocessing.get_context("fork")
    others = [fork.Process(target=_import_from, args=(modules, len(modules) * n // count), daemon=True) for n in range(1, count)]
    for other in others:
        other.start()
    _import_from(modules, 0)
    for other in others:
        other.join()


def _import_from(modules: list[str], first: int) -> None:
    """Import modules in their order, beginning with the one of that number; the first process tells what takes so long."""
    log.disabled = first > 0
    for module in (*modules[first:], *modules[:first]):
        importlib.import_module(module)


def kept() -> list[Path]:
    """The folders in which the machine code of the hosts' own modules is."""
    folders = (_folder(path, checked=False) for path in _modules(LOOPS[0]))
    return [folder for folder in folders if folder is not None and folder.exists()]


def _modules(*folders: str) -> list[Path]:
    """The files below these folders of ROOT that have compiled loops."""
    found = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return [path for path in found if "\n@compiled(" in path.read_text()]


def _tell(function: Callable[..., Any]) -> None:
    """What takes so long."""
    hosts = Path(function.__code__.co_filename).resolve().is_relative_to(ROOT / LOOPS[0])
    _tell_once("hosts'" if hosts else "simulator's", "some ten seconds" if hosts else "minutes")


@cache
def _tell_once(whose: str, time: str) -> None:
    log.warning("compiling the %s loops for this machine, which takes %s once", whose, time)


def _checked() -> bool:
    config: Any = numba.config
    return bool(config.BOUNDSCHECK)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """While a function of that folder is compiled: other processes wait, and then find it there."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


class _Place:
    """Where numba keeps the machine code of a function: a locator of numba's caches."""

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        self.folder, self.line = folder, function.__code__.co_firstlineno

    @classmethod
    def from_function(cls, function: Callable[..., Any], source: str) -> _Place | None:
        folder = _folder(Path(source), _checked())
        return None if folder is None else cls(function, folder)

    def ensure_cache_path(self) -> None:
        """It is there: _folder has made it."""

    def get_cache_path(self) -> str:
        return str(self.folder)

    def get_source_stamp(self) -> str:
        return self.folder.name

    def get_disambiguator(self) -> str:
        return str(self.line)


class _Implementation(CompileResultCacheImpl):
    _locator_classes = [_Place]  # noqa: RUF012 (as numba declares it)


class _Kept(FunctionCache):
    """The machine code of a function, below the content of its module."""

    _impl_class = _Implementation

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep it where that is possible; a confined process may only read what there is."""
        _tell(self._py_func)
        with suppress(OSError):
            super().save_overload(signature, result)


def _folder(source: Path, checked: bool) -> Path | None:
    """Where the machine code of a module is kept, made where it is not there; None if there can be no such folder."""
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = cache / "inalab" / f"loops-{_digest(source.resolve())}{'-checked' * checked}"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no permission; no home
        return None
    return folder


@cache
def _digest(source: Path) -> str:
    whole = hashlib.sha256()
    for path in sorted(_with_imports(source, set())):
        whole.update(path.read_bytes())
    return whole.hexdigest()[:24]


def _with_imports(source: Path, found: set[Path]) -> set[Path]:
    """A module's file, and the files below LOOPS that it imports, directly or not; added to `found`."""
    if source not in found and source.exists():
        found.add(source)
        for path in _imports(source):
            _with_imports(path, found)
    return found


@cache
def _imports(source: Path) -> list[Path]:
    """The files below LOOPS that a module's file may import; some do not exist."""
    paths = []
    for node in ast.walk(ast.parse(source.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module and f"{node.module}.".startswith(PREFIXES):
            base = ROOT.joinpath(*node.module.split(".")[1:])
            paths += [base.with_suffix(".py"), *(base / f"{name.name}.py" for name in node.names)]
    return paths
