"""The schemes that there are: those of this package, and those of files that were added."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from inalab import schemes
from inalab.hosts.collective import Operation
from inalab.hosts.plugins import PluginError, is_file, load
from inalab.schemes.scheme import Look, Scheme, SchemeSettings

REQUIRED = ("name", "look")


@dataclass(frozen=True)
class Drawn:
    """What figures need to know of a scheme."""

    look: Look
    of_bound: tuple[float, float]


_recorded: dict[str, Drawn] = {}  # of schemes whose files are not at hand, by name


class SchemeError(ValueError):
    """A scheme that does not exist, or cannot be used; str() is one sentence that says what to change."""


@cache
def _known() -> dict[str, Scheme]:
    """By name."""
    found = {}
    for info in pkgutil.iter_modules(schemes.__path__):
        source = f"inalab.schemes.{info.name}"
        scheme = getattr(importlib.import_module(source), "SCHEME", None)
        if scheme is not None:
            scheme.source = source
            found[scheme.name] = scheme
    return found


def names() -> list[str]:
    """All schemes by name."""
    return list(_known())


def having(operation: Operation) -> list[str]:
    """The schemes whose groups have an operation."""
    return [name for name, scheme in _known().items() if operation in scheme.operations]


def find(name: str) -> Scheme:
    """The scheme of that name; SchemeError lists those there are."""
    if name not in _known():
        raise SchemeError(f"scheme {name} is unknown: choose one of {', '.join(_known())}")
    return _known()[name]


def drawn(name: str) -> Drawn:
    """How a scheme is drawn: one that there is, or else one that a run's record tells of. Raises SchemeError."""
    if name in _recorded and name not in _known():
        return _recorded[name]
    scheme = find(name)
    return Drawn(scheme.look, scheme.of_bound)


def remember(name: str, how: Drawn) -> None:
    """Draw a scheme in this way where it is not among those that there are."""
    _recorded[name] = how


def add(source: str) -> Scheme:
    """Take in the scheme that a file defines as SCHEME, by its own name. Raises SchemeError."""
    try:
        scheme = load(source, "SCHEME")
    except PluginError as error:
        raise SchemeError(str(error)) from error.__cause__
    if not isinstance(scheme, Scheme):
        raise SchemeError(
            f"SCHEME of {source} is a {type(scheme).__name__}: make it an instance of a subclass of inalab.schemes.scheme.Scheme"
        )
    if lacks := [name for name in REQUIRED if not hasattr(scheme, name)]:
        raise SchemeError(f"SCHEME of {source} lacks {' and '.join(lacks)}")
    if not (isinstance(scheme.Settings, type) and issubclass(scheme.Settings, SchemeSettings)):
        raise SchemeError(
            f"Settings of {source} is no class of settings: make it a subclass of inalab.schemes.scheme.SchemeSettings"
        )
    members = ((name, getattr(type(scheme), name)) for name in dir(type(scheme)))
    if lacks := [f"{name}()" for name, member in members if getattr(member, "__isabstractmethod__", False)]:
        raise SchemeError(f"scheme {scheme.name} of {source} lacks {', '.join(lacks)}")
    taken, given = (list(inspect.signature(kind.commands).parameters) for kind in (Scheme, type(scheme)))
    if len(taken) != len(given):
        raise SchemeError(
            f"commands() of scheme {scheme.name} of {source} takes {', '.join(given[1:])}: make it {', '.join(taken[1:])}"
        )
    if (other := _known().get(scheme.name)) is not None and other is not scheme:
        raise SchemeError(f"there is a scheme {scheme.name} already: give SCHEME of {source} another name")
    scheme.source = str(Path(source).resolve())
    _known()[scheme.name] = scheme
    return scheme


def added() -> dict[str, Scheme]:
    """The schemes that were added, by their files."""
    return {scheme.source: scheme for scheme in _known().values() if is_file(scheme.source)}


def running(chosen: list[Scheme]) -> Scheme:
    """The scheme whose program the switches of a network with these schemes run; where none needs one, SwitchML's forwards.

    Raises SchemeError where they need different ones.
    """
    with_program = list(dict.fromkeys(scheme for scheme in chosen if scheme.program is not None))
    if len(with_program) > 1:
        wording = " and ".join(scheme.name for scheme in with_program)
        raise SchemeError(f"{wording} cannot be on one network: its switches run one program")
    return with_program[0] if with_program else find("switchml")
