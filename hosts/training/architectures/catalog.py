"""Architectures by name, and those in files."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from inalab.hosts.plugins import PluginError, load
from inalab.hosts.training.architectures import alexnet, profile, resnet, transformer, vgg
from inalab.hosts.training.architectures.architecture import Architecture

FAMILIES = alexnet, vgg, resnet, transformer
ARCHITECTURES = {a.name: a for family in FAMILIES for a in family.ARCHITECTURES}


def find(name: str) -> Architecture | None:
    """The architecture of that name, or the one that a file defines, or a profile (`.json`) has.

    `vgg16/64` has a 64th of each layer's elements. None if it is no such name; ValueError for a file that does not have one.
    """
    whole, part = _cut(name)
    found = ARCHITECTURES.get(whole) if file_of(whole) is None else _in_file(whole)
    return found if found is None or part == 1 else found.part(part)


def divided(name: str, by: int) -> str:
    """The name of the architecture with one element in so many."""
    whole, part = _cut(name)
    return f"{whole}/{part * by}" if part * by > 1 else whole


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def file_of(name: str) -> Path | None:
    """The file that an architecture's name is."""
    whole, _ = _cut(name)
    return Path(whole) if whole.endswith((".py", ".json")) else None


def _cut(name: str) -> tuple[str, int]:
    """A name, and which part of the elements behind it is meant."""
    whole, slash, part = name.rpartition("/")
    return (whole, int(part)) if slash and part.isdecimal() and int(part) > 0 else (name, 1)


def _in_file(source: str) -> Architecture:
    """Raises ValueError for a file that has none, or one that cannot be."""
    try:
        found = _profile(Path(source), _changed(Path(source))) if source.endswith(".json") else _defined(source)
        found.check()
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"{source} is no architecture: {type(error).__name__}: {error}") from None
    return found


def _defined(source: str) -> Architecture:
    try:
        found = load(source, "ARCHITECTURE")
    except PluginError as error:
        raise ValueError(str(error)) from None
    if not isinstance(found, Architecture):
        raise ValueError(f"ARCHITECTURE in {source} is no hosts.training.architectures.architecture.Architecture")
    return found


@cache
def _profile(path: Path, changed: int) -> Architecture:
    return profile.read(path)
