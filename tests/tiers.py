"""Which tests `make test` leaves to `make test-deep`, `make test-network` and `make test-labs`: those that tests/deep.toml names."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict

LIST = Path(__file__).with_name("deep.toml")
FOLDER = "deep"  # of tests that need what takes minutes to compile


class Deep(BaseModel):
    """Tests that take long and tell little that others do not: their node ids from the last folder on, and the reason."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tests: str
    but: tuple[str, ...] = ()
    why: str

    def names(self, test: str) -> bool:
        """Whether a test is one of them."""
        return matches(self.tests, test) and not any(matches(pattern, test) for pattern in self.but)


@cache
def entries() -> list[Deep]:
    """The list."""
    return [Deep.model_validate(entry) for entry in tomllib.loads(LIST.read_text())["deep"]]


def matches(pattern: str, test: str) -> bool:
    """* stands for anything, and everything else for itself."""
    return _expression(pattern).fullmatch(test) is not None


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


def deep(path: Path, test: str) -> bool:
    """Whether a test of that file, with that node id from the last folder on, is deep."""
    return path.parent.name == FOLDER or any(entry.names(test) for entry in entries())


def outdated(tests: list[str]) -> list[str]:
    """Patterns that stand for none of all tests."""
    patterns = [pattern for entry in entries() for pattern in (entry.tests, *entry.but)]
    return [pattern for pattern in patterns if not any(matches(pattern, test) for test in tests)]
