"""A run's folder: run.json (what was asked and on what), trials.jsonl (an object a trial), plots and the report."""

from __future__ import annotations

import fcntl
import json
import lzma
import math
import os
import tempfile
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from inalab.testbed.record import schema

PACKED = "trials.jsonl.xz"  # as the documentation keeps runs
LONGEST = 1 << 29  # bytes of unpacked trials: a folder may come from anywhere
LARGEST = 1e300  # number that a record can have
ROOT = Path(__file__).resolve().parents[2]


class ResultsError(RuntimeError):
    """A results folder cannot be written or read; str() says which and why."""


@dataclass
class Run:
    """A run's record and its trials, as read from or about to be written to its folder."""

    folder: Path
    record: dict[str, Any]
    trials: list[dict[str, Any]] = field(default_factory=list)
    claim: int | None = None  # descriptor that holds the lock of the folder

    def trial(self, name: str) -> dict[str, Any] | None:
        """The first valid or invalid trial of that name."""
        return next((t for t in self.trials if t["name"] == name), None)

    @property
    def finished(self) -> list[dict[str, Any]]:
        """Trials that have measurements, valid or not."""
        return [t for t in self.trials if "metrics" in t]


def create_run(results: Path, experiment: str, record: dict[str, Any]) -> Run:
    """A new folder results/EXPERIMENT/RUN with its run.json; the name is the time, and the seed."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    base = results / experiment
    for n in range(1, 100):
        folder = base / (f"{stamp}-seed{record['seed']}" + (f"-{n}" if n > 1 else ""))
        try:
            folder.mkdir(parents=True)
            break
        except FileExistsError:
            continue
        except OSError as error:
            raise ResultsError(f"the results folder {folder} cannot be written: {error.strerror}") from None
    else:
        raise ResultsError(f"{base} has a hundred runs of this second")
    run = Run(folder, record)
    save_record(run)
    return run


def save_record(run: Run) -> None:
    """Write run.json."""
    write_whole(run.folder / "run.json", json.dumps(run.record, indent=2, allow_nan=False) + "\n")


def add_trial(run: Run, trial: dict[str, Any]) -> None:
    """Append a trial to the run and to its trials.jsonl, at once: an interruption later loses nothing."""
    trial = rounded(trial)
    run.trials.append(trial)
    try:
        with open(run.folder / "trials.jsonl", "a") as out:
            out.write(json.dumps(trial, allow_nan=False) + "\n")
    except OSError as error:
        raise ResultsError(f"{run.folder}/trials.jsonl cannot be written: {error.strerror}") from None


def claim(run: Run) -> bool:
    """Make the run this process's own until it releases it or ends; False if another process is at it."""
    run.claim = lock(run.folder)
    return run.claim is not None


def lock(folder: Path) -> int | None:
    """Lock a folder until the descriptor that this returns is closed, or the process ends; None if another process has it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def release(run: Run) -> None:
    """Leave the run to others."""
    if run.claim is not None:
        os.close(run.claim)
        run.claim = None


def keep_trials(run: Run, trials: list[dict[str, Any]]) -> None:
    """Keep these trials alone, in memory and in trials.jsonl."""
    run.trials = trials
    path = run.folder / "trials.jsonl"
    write_whole(path, "".join(json.dumps(trial, allow_nan=False) + "\n" for trial in trials))


def _read(text: str) -> Any:
    """Values of JSON. ValueError for what no record has: text that cannot be written, numbers beyond all measure.

    NaN and infinity, which records of old versions have, are None.
    """
    value = json.loads(text, parse_constant=lambda _: None)
    json.dumps(value, ensure_ascii=False).encode()  # raises UnicodeEncodeError for half a surrogate pair
    _check_numbers(value)
    return value


def _check_numbers(value: Any) -> None:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            _check_numbers(part)
    elif isinstance(value, int | float) and not -LARGEST < value < LARGEST:
        raise ValueError(f"the number {str(value)[:20]} is none that was measured")


def load_run(folder: Path) -> Run:
    """Read a run back; ResultsError if the folder is none."""
    try:
        record = _read((folder / "run.json").read_text())
        whole = _trials_of(folder)
        lines = whole.split("\n")[:-1]  # what follows the last line's end was being written when the run was killed
        trials = [_read(line) for line in lines]
    except (OSError, ValueError, RecursionError, lzma.LZMAError) as error:
        raise ResultsError(f"{folder} is not the folder of a run: {error}") from None
    if wrong := schema.problem(schema.Record, record):
        raise ResultsError(f"{folder} is not the folder of a run: in its run.json, {wrong}")
    for number, trial in enumerate(trials, start=1):
        if wrong := schema.problem(schema.Trial, trial):
            raise ResultsError(f"{folder} is not the folder of a run: in line {number} of its trials.jsonl, {wrong}")
    return Run(folder, record, trials)


def _trials_of(folder: Path) -> str:
    if (folder / "trials.jsonl").exists():
        return (folder / "trials.jsonl").read_text()
    if not (folder / PACKED).exists():
        return ""
    archive = lzma.LZMADecompressor()
    whole = archive.decompress((folder / PACKED).read_bytes(), LONGEST)
    if not archive.eof:
        raise ValueError(f"{PACKED} is cut off, or too long")
    return whole.decode()


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file that its readers see as it was or as it is now, never in part, also where two write it at once.

    A link in its place is replaced, not followed: a run's folder may come from anywhere.
    """
    data = content.encode() if isinstance(content, str) else content
    beside = None
    try:
        descriptor, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with open(descriptor, "wb") as file:
            file.write(data)
        os.chmod(beside, 0o666 & ~_umask())
        os.replace(beside, path)
    except OSError as error:
        if beside is not None:
            Path(beside).unlink(missing_ok=True)
        raise ResultsError(f"{path} cannot be written: {error.strerror}") from None


@cache
def _umask() -> int:
    """What new files of this process lack in rights; asking for it sets it, too."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def rounded(value: Any) -> Any:
    """A record with floats of nine digits after the point, and None for what is no finite number: JSON has no word for it."""
    if isinstance(value, float):
        return round(value, 9) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return value
