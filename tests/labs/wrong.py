"""Wrong solutions of labs: the reference solution with a mistake in it, and the task that must say so.

wrong/LAB.toml lists them: `name`, `file`, `before` and `after` (text that the file has once), `task` (which must fail), and
`says` (words that its message or trace has).
"""

from __future__ import annotations

import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path

from inalab.testbed.lab.catalogue import SOLUTIONS

LISTS = Path(__file__).parent / "wrong"


@dataclass(frozen=True)
class Wrong:
    """One mistake."""

    lab: str
    name: str
    file: str
    before: str
    after: str
    task: str
    says: str


def all_wrong() -> list[Wrong]:
    """All of them, lab by lab."""
    found = []
    for path in sorted(LISTS.glob("*.toml")):
        found += [Wrong(lab=path.stem, **entry) for entry in tomllib.loads(path.read_text())["wrong"]]
    return found


def write(wrong: Wrong, folder: Path) -> Path:
    """The solution with the mistake, in a folder."""
    shutil.copytree(SOLUTIONS / wrong.lab, folder, dirs_exist_ok=True)
    path = folder / wrong.file
    text = path.read_text()
    assert text.count(wrong.before) == 1, f"{path} has {wrong.before!r} {text.count(wrong.before)} times"
    path.write_text(text.replace(wrong.before, wrong.after))
    return folder
