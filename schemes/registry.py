"""The schemes that there are: those of this package, and those of files that were added."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from inalab import schemes
from inalab.hosts.collective import Operation
from inalab.hosts.plugins import PluginError, is_file, load
from inalab.schemes.scheme import Admitted, Cells, Look, Scheme, SchemeSettings
from inalab.schemes.streaming import P4
from inalab.switches.control import Control
from inalab.topologies.plan import NetworkPlan

REQUIRED = ("name", "look")
SHARED = {frozenset({P4 / "atp.p4", P4 / "switchml.p4"}): P4 / "atp_switchml.p4"}  # programs that do what several others do


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


@dataclass(frozen=True)
class Running:
    """What the switches of a network run: a program, and the schemes whose jobs it serves, at least one."""

    program: Path
    schemes: tuple[Scheme, ...]

    @property
    def name(self) -> str:
        return " and ".join(scheme.name for scheme in self.schemes)

    def counted(self, control: Control, plan: NetworkPlan, name: str, jobs: Sequence[Admitted]) -> dict[str, Any]:
        """What the program on the switch `name` has counted of these schemes' jobs. Lists of two schemes are joined."""
        found: dict[str, Any] = {}
        for scheme in self.schemes:
            for what, number in scheme.counted(control, plan, name, [job for job in jobs if job.scheme is scheme]).items():
                found[what] = found[what] + number if what in found else number
        return found

    def memory(self, control: Control, plan: NetworkPlan, name: str, jobs: Sequence[Admitted]) -> list[Cells]:
        """What these schemes' jobs have of the memory of the switch `name`."""
        each = (scheme.memory(control, plan, name, [job for job in jobs if job.scheme is scheme]) for scheme in self.schemes)
        return [cells for its in each for cells in its]

    def metrics(self, counted: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Metrics of a trial that follow from what all switches have counted."""
        return {name: value for scheme in self.schemes for name, value in scheme.metrics(counted).items()}


def running(chosen: list[Scheme]) -> Running:
    """What the switches of a network with these schemes run; where none needs a program, SwitchML's, which forwards.

    Raises SchemeError where they need different ones, and no program serves them all.
    """
    with_program = tuple(dict.fromkeys(scheme for scheme in chosen if scheme.program is not None)) or (find("switchml"),)
    programs = [scheme.program for scheme in with_program if scheme.program is not None]
    program = programs[0] if len(programs) == 1 else SHARED.get(frozenset(programs))
    if program is None or len(set(programs)) < len(programs):
        wording = " and ".join(scheme.name for scheme in with_program)
        raise SchemeError(f"{wording} cannot be on one network: no program of a switch serves both")
    return Running(program, with_program)
