"""Loops over the packets of a batch: Python functions over numpy arrays that numba compiles to machine code.

Each has a signature, so it is compiled when its module is imported, before workers are forked, and takes nothing else.
Machine code is cached by the content of the module and of those that it imports from here: numba itself does not notice that an
imported constant or function has changed, and would go on with the old one.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import logging
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

PACKAGE = Path(__file__).parent
ROOT = PACKAGE.parent
LOOPS = ("hosts", "testbed/simulator")  # folders of ROOT whose modules have compiled loops
PREFIXES = tuple(f"{folder.replace('/', '.')}." for folder in LOOPS)
log = logging.getLogger("inalab")
OPTIONS: Any = {"nogil": True, "error_model": "numpy"}
Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(signature: Any, inline: bool = False) -> Callable[[Function], Function]:
    """Decorate a function of a module below LOOPS; `signature` is numba's, as a string ("f8(i8[::1], b1)") or made of its types.

    `inline`: it becomes part of the functions that call it, as is worth while for those that are short and take many arrays.

    Indices are checked where numba.config.BOUNDSCHECK is set before the module is imported, as the tests do.
    """

    def compile_now(function: Function) -> Function:
        config: Any = numba.config
        before = config.CACHE_DIR
        folder = _folder(Path(function.__code__.co_filename), bool(config.BOUNDSCHECK))
        if folder is None or not folder.exists():
            _tell()
        config.CACHE_DIR = str(folder or before)
        try:
            loop: Any = numba.njit(signature, cache=folder is not None, forceinline=inline, **OPTIONS)(function)
        finally:
            config.CACHE_DIR = before
        if folder is not None and not Path(loop.stats.cache_path).is_relative_to(folder):  # numba has taken another folder
            loop = numba.njit(signature, forceinline=inline, **OPTIONS)(function)
        return cast(Function, loop)

    return compile_now


def compile_all() -> None:
    """Import all modules that have compiled loops: set-up does so, lest an experiment wait for them."""
    for path in _modules(*LOOPS):
        importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def kept() -> list[Path]:
    """The folders in which the machine code of the hosts' own modules is."""
    folders = (_folder(path, checked=False) for path in _modules(LOOPS[0]))
    return [folder for folder in folders if folder is not None and folder.exists()]


def _modules(*folders: str) -> list[Path]:
    """The files below these folders of ROOT that have compiled loops."""
    found = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return [path for path in found if "\n@compiled(" in path.read_text()]


@cache
def _tell() -> None:
    """Once a process: what takes so long."""
    log.warning("compiling the hosts' loops for this machine, which takes some ten seconds once")


def _folder(source: Path, checked: bool) -> Path | None:
    """Where the machine code of a module is kept; None if nothing can be written there."""
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = cache / "inalab" / f"loops-{_digest(source)}{'-checked' * checked}"
        folder.parent.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no permission; no home
        return None
    return folder if os.access(folder if folder.exists() else folder.parent, os.W_OK) else None


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
        for node in ast.walk(ast.parse(source.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module and f"{node.module}.".startswith(PREFIXES):
                base = ROOT.joinpath(*node.module.split("."))
                for path in (base.with_suffix(".py"), *(base / f"{name.name}.py" for name in node.names)):
                    _with_imports(path, found)
    return found
