"""Submissions that would have points without the work: the reference solution with changes, and the task that must give nothing.

cheats/LAB.toml lists them: `name`, `task`, `says` (words of its message or trace), and `changes`, each of a `file`: `before` and
`after` (text that the file has once), or `append`. @LABS@ stands for the labs' folder.
"""

from __future__ import annotations

import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path

from inalab.testbed.lab.catalogue import SOLUTIONS
from inalab.testbed.lab.confinement import LABS

LISTS = Path(__file__).parent / "cheats"


@dataclass(frozen=True)
class Cheat:
    """One of them."""

    lab: str
    name: str
    task: str
    says: str
    changes: list[dict[str, str]]


def all_cheats() -> list[Cheat]:
    """All of them, lab by lab."""
    lists = {path.stem: tomllib.loads(path.read_text())["cheat"] for path in sorted(LISTS.glob("*.toml"))}
    return [Cheat(lab, **entry) for lab, entries in lists.items() for entry in entries]


def write(cheat: Cheat, folder: Path) -> Path:
    """The submission, in a folder."""
    shutil.copytree(SOLUTIONS / cheat.lab, folder, dirs_exist_ok=True)
    for change in cheat.changes:
        path = folder / change["file"]
        text = path.read_text() if path.exists() else ""
        if "before" in change:
            assert text.count(change["before"]) == 1, f"{path} has {change['before']!r} {text.count(change['before'])} times"
            text = text.replace(change["before"], change["after"])
        path.write_text((text + change.get("append", "")).replace("@LABS@", str(LABS)))
    return folder
