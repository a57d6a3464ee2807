"""Which line of a P4 program decided something, from the steps that a traced switch recorded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

FORWARDING = (".egress_spec", ".mcast_grp", "mark_to_drop()")
LARGEST = 1 << 20  # bytes of a program
# scapy's names of fields, where they are not the P4 programs'
NAMES = {"chksum": "checksum"}


@dataclass(frozen=True)
class Step:
    """A statement that a packet reached: its file and line, and the paths of what it writes. `egress` begins a copy's egress."""

    file: str
    line: int
    writes: tuple[str, ...]
    egress: int | None = None


def read(text: str) -> list[Step]:
    """The steps in the answer to show_trace."""
    steps = []
    for line in text.splitlines():
        if line.startswith("egress "):
            steps.append(Step("", 0, (), int(line.split()[1])))
        else:
            where, _, writes = line.partition("\t")
            number, _, file = where.partition(" ")
            steps.append(Step(file, int(number), tuple(writes.split())))
    return steps


def of_copy(steps: list[Step], port: int | None) -> list[Step]:
    """The steps of ingress, and those of egress for one port."""
    kept, wanted = [], True
    for step in steps:
        if step.egress is not None:
            wanted = step.egress == port
        if wanted:
            kept.append(step)
    return kept


def last_writer(steps: Iterable[Step], endings: Iterable[str]) -> Step | None:
    """The last step that writes something whose path ends in one of these."""
    found = None
    for step in steps:
        if any(path.endswith(ending) for path in step.writes for ending in endings):
            found = step
    return found


def source(step: Step, submission: Path) -> str | None:
    """The text of a step's line if it is in the submission, and not in a file of P4's own; its program may name any file."""
    try:
        path = (submission / step.file).resolve()
        relative = path.relative_to(submission.resolve())
        if not path.is_file() or path.stat().st_size > LARGEST:
            return None
        return f"{relative}:{step.line}: {path.read_text(errors='replace').splitlines()[step.line - 1].strip()}"
    except (ValueError, OSError, IndexError):
        return None
