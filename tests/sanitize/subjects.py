"""What is tried under the sanitizers: each program with what its recordings say of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from inalab.switches.embedded.build import build
from tests.scenarios import PROGRAMS, Scenario, scenarios


@dataclass(frozen=True)
class Subject:
    """A program as its recordings were made, and those."""

    program: Path
    defines: dict[str, str]
    scenarios: list[Scenario] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.program.stem

    @cached_property
    def executable(self) -> Path:
        """The program under AddressSanitizer and UndefinedBehaviorSanitizer."""
        return build(self.program, self.defines, sanitize=True)


def subjects() -> list[Subject]:
    """switchml, atp, and each program of tests/programs, whether there are recordings of it or not."""
    found: dict[tuple[Path, tuple[tuple[str, str], ...]], Subject] = {}
    for scenario in scenarios().values():
        key = scenario.program, tuple(sorted(scenario.defines.items()))
        found.setdefault(key, Subject(scenario.program, scenario.defines)).scenarios.append(scenario)
    known = {subject.program for subject in found.values()}
    others = [path for path in sorted(PROGRAMS.glob("*.p4")) if path not in known and _is_whole(path)]
    return [*found.values(), *(Subject(path, {}) for path in others)]


def _is_whole(path: Path) -> bool:
    """Whether a file is a program, not a part of one."""
    text = path.read_text()
    return '#include "frame.p4"' in text or "V1Switch" in text.replace("#define PACKAGE V1Switch", "")
