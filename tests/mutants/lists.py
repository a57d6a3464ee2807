"""The lists of mutants: TOML files in tests/mutants/, one for each area of the code. An entry is

[[mutant]]
name = "saturating add wraps"                # the mistake; unique in its list
file = "switches/embedded/arithmetic.py"
before = '''the text'''                      # exactly once in the file
after = '''the mistake'''
tests = ["tests/unit/test_compiler.py"]      # files or node ids, of which at least one must fail
"""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

LISTS = Path("tests/mutants")
NETWORK_TESTS = "tests/network/"


class ListError(Exception):
    """A list that cannot be used; str() is one sentence."""


class Mutant(BaseModel):
    """One mistake in one file, and the tests that must notice it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    area: str
    name: str
    file: str
    before: str = Field(min_length=1)
    after: str
    tests: tuple[str, ...] = Field(min_length=1)

    def __str__(self) -> str:
        return f"{self.area}: {self.name}"

    @property
    def unit_tests(self) -> list[str]:
        """The tests that need no network."""
        return [test for test in self.tests if not test.startswith(NETWORK_TESTS)]

    @property
    def network_tests(self) -> list[str]:
        """The tests that make networks, as root."""
        return [test for test in self.tests if test.startswith(NETWORK_TESTS)]

    def problem(self, root: Path) -> str | None:
        """Why this entry does not fit the code below `root`, or None."""
        source = root / self.file
        if not source.is_file():
            return f"there is no file {self.file}"
        if (found := source.read_text().count(self.before)) != 1:
            return f"its text occurs {found} times in {self.file}, not once"
        if self.before == self.after:
            return "it changes nothing"
        if missing := [test for test in self.tests if not (root / test.partition("::")[0]).is_file()]:
            return f"there is no {missing[0]}"
        return None


def read_lists(root: Path) -> list[Mutant]:
    """All mutants, in the order of the files' names. Raises ListError."""
    mutants = [mutant for path in sorted((root / LISTS).glob("*.toml")) for mutant in _read(path)]
    if not mutants:
        raise ListError(f"there are no mutants in {root / LISTS}")
    return mutants


def _read(path: Path) -> list[Mutant]:
    try:
        entries = tomllib.loads(path.read_text())["mutant"]
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise ListError(f"{path.name} has no list of mutants: {error}") from error
    mutants = [_parse(path, entry) for entry in entries]
    if twice := [name for name, count in Counter(mutant.name for mutant in mutants).items() if count > 1]:
        raise ListError(f"{path.name} has two mutants with the name '{twice[0]}'")
    return mutants


def _parse(path: Path, entry: dict[str, object]) -> Mutant:
    try:
        return Mutant.model_validate({"area": path.stem, **entry})
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise ListError(f"{path.name}, '{entry.get('name')}': {wrong}") from error
