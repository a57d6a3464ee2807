"""Submissions as they come: in an archive, a folder deeper, under another name, or in another encoding. Each is told what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from inalab.testbed.lab.lab import LabError

ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.xz", ".tar.bz2", ".7z", ".rar")
NOBODYS = ("__MACOSX",)  # folders that programs put into archives
DEEPEST = 3  # folders
LARGEST = 4 << 20  # bytes of a program
UTF16 = (b"\xff\xfe", b"\xfe\xff")  # how such a file begins
READABLE = 0o400  # of a file's mode: by whom it belongs to


def has(folder: Path, files: Sequence[str]) -> bool:
    """Whether one of these files is in a folder."""
    return any((folder / file).exists() for file in files)


def refuse_elsewhere(folder: Path, files: Sequence[str]) -> None:
    """Raise LabError where none of these files is in a folder, but one is near: some folders deeper, or in an archive."""
    if folder.is_file():
        unpack = ": unpack it, and name the folder" if folder.name.lower().endswith(ARCHIVES) else ", not a folder"
        raise LabError(f"{folder} is a{'n archive' if unpack[0] == ':' else ' file'}{unpack}")
    for depth in range(1, DEEPEST + 1):
        for one in sorted(folder.glob("*/" * depth)):
            below = one.relative_to(folder)
            links = any(part.is_symlink() for part in (one, *one.parents[: depth - 1]))
            if not links and below.parts[0] not in NOBODYS and has(one, files):
                raise LabError(f"{folder} has none of {', '.join(files)}: they are in {below}/, so name that folder")
    inside = sorted(folder.iterdir()) if folder.is_dir() else []
    if packed := [one for one in inside if one.name.lower().endswith(ARCHIVES)]:
        raise LabError(f"{folder} has none of {', '.join(files)}, and {packed[0].name}: unpack that")


def refuse_unusual(folder: Path, files: Sequence[str]) -> None:
    """Raise LabError where one of these files has another name, or is no text that can be read."""
    for file in files:
        path = folder / file
        if path.is_symlink():
            raise LabError(f"{path} cannot be read: it is a link, and not the file itself")
        if path.is_file():
            _refuse_unreadable(path)
        elif (
            folder.is_dir()
            and not path.exists()
            and (alike := [one.name for one in sorted(folder.iterdir()) if _usual(one.name) == file.lower()])
        ):
            raise LabError(f"{folder} has {alike[0]}: rename it to {file}")


def _usual(name: str) -> str:
    """A name without what Windows, browsers and programs that unpack do to it: work\\One (1).P4.txt is one.p4."""
    name = name.rpartition("\\")[2].lower()
    stem, dot, suffix = name.removesuffix(".txt").rpartition(".")
    return re.sub(r"( \(\d+\)|\(\d+\)|-\d+| - copy| copy)$", "", stem) + dot + suffix


def _refuse_unreadable(path: Path) -> None:
    status = path.stat()
    if status.st_size > LARGEST:
        raise LabError(f"{path} has {status.st_size >> 20} MiB: no program is so large")
    if not status.st_mode & READABLE:
        raise LabError(f"{path} cannot be read: allow it, as with chmod u+r")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise LabError(f"{path} cannot be read: {error.strerror}") from None
    if content.startswith(UTF16) or b"\0" in content:
        raise LabError(f"{path} is UTF-16, or no text: save it as UTF-8")
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise LabError(f"{path} is not UTF-8 in line {line}: save it as UTF-8") from None
