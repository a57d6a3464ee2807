"""Which labs there are, and which one a folder is work on."""

from __future__ import annotations

import importlib
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from inalab.testbed.lab import handed_in
from inalab.testbed.lab.confinement import GIVEN, LABS
from inalab.testbed.lab.lab import Lab, LabError, Plot

SOLUTIONS = LABS / "solutions"
LONGEST_NOTE = 10_000  # characters
NOTE = "lab.toml"  # in a student's folder: which lab it is
PARTS = ("check", "figure")  # modules of a lab
P4_PAGE = "P4.md"  # copied beside the README, which links to it


def names() -> list[str]:
    """All labs, in their order."""
    return sorted(path.parent.name for path in LABS.glob("[0-9][0-9]-*/check.py"))


def find(word: str) -> str:
    """The lab that a person means: 03-sum, sum, or 3. Raises LabError."""
    for name in names():
        number, _, title = name.partition("-")
        if word in (name, title) or (word.isdecimal() and word.lstrip("0") == number.lstrip("0")):
            return name
    raise LabError(f"there is no lab {word}; `inalab lab list` shows which there are")


def load(name: str) -> Lab:
    """The lab that check.py defines."""
    return cast(Lab, _part(name, "check").lab)


def plot(name: str) -> Plot:
    """The figure that figure.py defines."""
    return cast(Plot, _part(name, "figure").plot)


def _part(name: str, part: str) -> ModuleType:
    """A module of a lab's folder; it imports its neighbours by their names, as `from check import …`."""
    path = LABS / name / f"{part}.py"
    if not path.is_file():
        raise LabError(f"{path} is missing")
    if part == "figure":
        load(name)
    if (name, part) not in _loaded:
        others = {other: module for (lab, other), module in _loaded.items() if lab == name}
        with _importing(path.parent, others):
            _loaded[name, part] = importlib.import_module(part)
    return _loaded[name, part]


_loaded: dict[tuple[str, str], ModuleType] = {}


@contextmanager
def _importing(folder: Path, known: dict[str, ModuleType]) -> Iterator[None]:
    """Modules of a folder can be imported by their names, which mean nothing afterwards: every lab has the same."""
    sys.path.insert(0, str(folder))
    sys.modules.update(known)
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for part in PARTS:
            sys.modules.pop(part, None)


def begin(name: str, folder: Path) -> list[Path]:
    """Copy a lab's starter and README into a folder, which must be empty or new; the files. Raises LabError."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise LabError(f"{folder} exists and is not empty: name another folder, or go on in it with `inalab lab check {folder}`")
    lab = LABS / name
    try:
        shutil.copytree(lab / "starter", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "README.md").write_text((lab / "README.md").read_text().replace(f"](../{P4_PAGE})", f"]({P4_PAGE})"))
        for path in [LABS / P4_PAGE, *(GIVEN / file for file in load(name).given)]:
            shutil.copy(path, folder)
        (folder / NOTE).write_text(f'# Which lab this folder is work on; `inalab lab check` reads it.\nlab = "{name}"\n')
    except OSError as error:
        raise LabError(f"{folder} cannot be written: {error.strerror}") from None
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def named(lab: str | None, folder: Path) -> str:
    """The lab that a person names, or else the one that a folder is work on, and whose files can be read. Raises LabError."""
    name = find(lab) if lab else lab_of(folder)
    files = load(name).files
    if not handed_in.has(folder, files):
        handed_in.refuse_elsewhere(folder, files)
    handed_in.refuse_unusual(folder, files)
    return name


def lab_of(folder: Path) -> str:
    """Which lab a student's folder is work on. Raises LabError."""
    note = folder / NOTE
    if not handed_in.has(folder, [NOTE]):
        handed_in.refuse_elsewhere(folder, [NOTE])
    handed_in.refuse_unusual(folder, [NOTE])
    if not folder.is_dir():
        raise LabError(f"there is no folder {folder}")
    try:
        if note.exists() and not note.is_file():
            raise LabError(f"{note} cannot be read: it is no file")
        with open(note, encoding="utf-8-sig") as opened:
            content: dict[str, Any] = tomllib.loads(opened.read(LONGEST_NOTE))
    except FileNotFoundError:
        raise LabError(
            f"{folder} is no lab: {NOTE} is missing; `inalab lab start NAME` makes such a folder, --lab NAME says which it is"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise LabError(f"{note} cannot be read: {error}") from None
    word = content.get("lab")
    if not isinstance(word, str) or not re.fullmatch(r"[\w-]+", word):
        raise LabError(f'{note} must say which lab it is, such as lab = "01-forward"')
    return find(word)
