"""What the bmv2 target needs of a machine, which of it is there, and where the rest is to be had.

simple_switch and p4c come from p4lang's packages or sources, and bring the Python modules of BMv2's Thrift interface with
them, in a place that a virtual environment does not look at. P4-utils comes from its repository.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

P4UTILS = "git+https://github.com/nsg-ethz/p4-utils@83b118bbae530b31cc74e7fa32f9174f7c0a1184"
P4LANG = "p4lang's package {}, or build it from its sources"


@dataclass(frozen=True)
class Piece:
    """Something that the target needs: whether it is here (and where), and how to get it."""

    name: str
    found: Callable[[], str]  # empty: it is missing
    means: str
    package: str  # what to install, in a word
    get: str


def _tool(name: str) -> Callable[[], str]:
    return lambda: shutil.which(name) or ""


def _module(name: str) -> Callable[[], str]:
    return lambda: _locate(name)


@cache
def _package_folders() -> list[Path]:
    """Where packages beside simple_switch, and those of the distribution, keep their Python modules."""
    switch = shutil.which("simple_switch")
    prefixes = [*([Path(switch).resolve().parents[1]] if switch else []), Path("/usr/local"), Path("/usr")]
    folders = [f for p in prefixes for kind in ("site", "dist") for f in sorted(p.glob(f"lib/python3*/{kind}-packages"))]
    return list(dict.fromkeys(folders))


def _locate(name: str) -> str:
    """Where a module would be imported from; if it is out of sight, its folder joins the end of the search path."""
    if importlib.util.find_spec(name) is None:
        for folder in _package_folders():
            if (folder / name).is_dir() or (folder / f"{name}.py").is_file():
                sys.path.append(str(folder))
                importlib.invalidate_caches()
                break
    spec = importlib.util.find_spec(name)
    return (spec.origin or "found") if spec else ""


PIECES = (
    Piece("simple_switch", _tool("simple_switch"), "the switch", "p4lang-bmv2", P4LANG.format("p4lang-bmv2")),
    Piece("p4c", _tool("p4c"), "compiles programs for it", "p4lang-p4c", P4LANG.format("p4lang-p4c")),
    Piece("P4-utils", _module("p4utils"), "starts switches and fills their tables", "P4-utils", f"pip install --no-deps {P4UTILS}"),
    Piece("thrift", _module("thrift"), "carries commands to the switch", "thrift",
          'pip install "inalab[bmv2]" (Debian: python3-thrift)'),
    Piece("sswitch_runtime", _module("sswitch_runtime"), "BMv2's Python modules, the commands themselves", "p4lang-bmv2",
          "a simple_switch built with Thrift brings it"),
)  # fmt: skip


def find(name: str) -> str:
    """Where a piece is; empty if it is missing."""
    return next(piece.found() for piece in PIECES if piece.name == name)


def missing() -> list[Piece]:
    """The pieces that are not here; after this, those that are can be imported."""
    return [piece for piece in PIECES if not piece.found()]


def versions() -> dict[str, str]:
    """Of simple_switch and p4c, as they print them, and of P4-utils."""
    return {"simple_switch": printed_version("simple_switch"), "p4c": printed_version("p4c"), "p4utils": _p4utils()}


def printed_version(tool: str) -> str:
    """The last line of a tool's --version, which is where both have it."""
    done = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[-1] if lines else "unknown"


def _p4utils() -> str:
    try:
        return importlib.metadata.version("p4utils")
    except importlib.metadata.PackageNotFoundError:
        return "not installed as a package"
