"""Copies of the code, away from the repository, and an environment in which tests run on them alone."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.mutants.lists import Mutant


class CopyError(Exception):
    """The code cannot be copied; str() is one sentence."""


def copy_code(root: Path, to: Path) -> Path:
    """Copy what git tracks below `root`, and new files that it does not ignore; no bytecode. Raises CopyError."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise CopyError(f"git has to list the files of {root}, and cannot: clone the repository with git") from error
    for name in sorted(set(listed.split("\0")) - {""}):
        if (root / name).exists():  # or it is deleted, and that is not committed
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, to / name, follow_symlinks=False)
    return to


def borrowed_cache(to: Path) -> Path:
    """A cache folder that has what the user's has, as links: what mutants add to it goes away with it.

    All are by content, programs and cores: what is there already is never written again.
    """
    own = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    built = to / "inalab"
    built.mkdir(parents=True)
    for entry in own.glob("*"):
        if entry.name != built.name:
            (to / entry.name).symlink_to(entry)
    for entry in (own / built.name).glob("*"):
        (built / entry.name).symlink_to(entry)
    return to


def environment(copy: Path, cache: Path) -> dict[str, str]:
    """The variables for tests of a copy.

    Every Python process imports the copy, not an installed inalab. Bytecode is never written: Python compares a source's
    time in seconds, and would run the code from before a mutant that is as long as the text it replaces.
    """
    fixed = {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "XDG_CACHE_HOME": str(cache)}
    return {**os.environ, **fixed}


@contextmanager
def mutated(copy: Path, mutant: Mutant) -> Iterator[None]:
    """A copy with one mistake in it, until the end of the block."""
    source = copy / mutant.file
    text = source.read_text()
    source.write_text(text.replace(mutant.before, mutant.after))
    try:
        yield
    finally:
        source.write_text(text)
