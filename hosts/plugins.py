"""Objects that a module or a file of Python defines: how a scheme or an experiment from outside the tree is found."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

RENAMED = ("experiments", "hosts", "schemes", "switches", "testbed", "topologies")  # packages that are below inalab now


class PluginError(ValueError):
    """A module or file that does not define what it should; str() is one sentence that says what to change."""


def is_file(source: str) -> bool:
    """Whether the name is that of a file and not of a module."""
    return source.endswith(".py") or "/" in source


def load_module(source: str) -> ModuleType:
    """The module of that dotted name, or the one in that file. Raises PluginError."""
    if not is_file(source):
        return importlib.import_module(source)
    path = Path(source).resolve()
    name = f"inalab_plugin_{path.stem}"
    loaded = sys.modules.get(name)
    if loaded is not None and loaded.__file__ == str(path):
        return loaded
    spec = importlib.util.spec_from_file_location(name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise PluginError(f"there is no file {source}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before it runs: dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        line, renamed = _line(error, path), ""
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in RENAMED:
            renamed = f"; it is inalab.{error.name}"
        raise PluginError(f"{source}{line} cannot be imported: {type(error).__name__}: {error}{renamed}") from error
    return module


def defines(source: str, name: str) -> bool:
    """Whether there is such a module or file, and something in it that is called `name`."""
    try:
        return hasattr(load_module(source), name)
    except PluginError:
        return False


def load(source: str, name: str) -> Any:
    """What the module or file calls `name`. Raises PluginError."""
    module = load_module(source)
    if not hasattr(module, name):
        raise PluginError(f"{source} does not define {name}")
    return getattr(module, name)


def load_object(source: str, name: str, methods: Sequence[str]) -> Any:
    """Likewise, of an object that has these methods."""
    found = load(source, name)
    if isinstance(found, type):
        raise PluginError(f"{name} of {source} is a class: make it an instance")
    if lacks := [method for method in methods if not callable(getattr(found, method, None))]:
        raise PluginError(f"{name} of {source} lacks {', '.join(lacks)}")
    return found


def _line(error: Exception, path: Path) -> str:
    """Where in the file the error arose."""
    if isinstance(error, SyntaxError):
        return f", line {error.lineno},"
    lines, trace = [], error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f", line {lines[-1]}," if lines else ""
