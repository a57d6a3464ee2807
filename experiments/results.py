"""A run's folder: run.json (what was asked and on what), trials.jsonl (an object a trial), plots and the report."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

RECORDED_PACKAGES = ("inalab", "torch", "numpy", "scipy", "scikit-learn", "mininet", "matplotlib")
ROOT = Path(__file__).resolve().parent.parent


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
    write_whole(run.folder / "run.json", json.dumps(run.record, indent=2) + "\n")


def add_trial(run: Run, trial: dict[str, Any]) -> None:
    """Append a trial to the run and to its trials.jsonl, at once: an interruption later loses nothing."""
    trial = _rounded(trial)
    run.trials.append(trial)
    try:
        with open(run.folder / "trials.jsonl", "a") as out:
            out.write(json.dumps(trial) + "\n")
    except OSError as error:
        raise ResultsError(f"{run.folder}/trials.jsonl cannot be written: {error.strerror}") from None


def claim(run: Run) -> bool:
    """Make the run this process's own until it releases it or ends; False if another process is at it."""
    descriptor = os.open(run.folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return False
    run.claim = descriptor
    return True


def release(run: Run) -> None:
    """Leave the run to others."""
    if run.claim is not None:
        os.close(run.claim)
        run.claim = None


def keep_trials(run: Run, trials: list[dict[str, Any]]) -> None:
    """Keep these trials alone, in memory and in trials.jsonl."""
    run.trials = trials
    path = run.folder / "trials.jsonl"
    write_whole(path, "".join(json.dumps(trial) + "\n" for trial in trials))


def load_run(folder: Path) -> Run:
    """Read a run back; ResultsError if the folder is none."""
    try:
        record = json.loads((folder / "run.json").read_text())
        whole = (folder / "trials.jsonl").read_text() if (folder / "trials.jsonl").exists() else ""
        lines = whole.split("\n")[:-1]  # what follows the last line's end was being written when the run was killed
        trials = [json.loads(line) for line in lines]
    except (OSError, ValueError) as error:
        raise ResultsError(f"{folder} is not the folder of a run: {error}") from None
    if not isinstance(record, dict) or not {"experiment", "target", "seed", "set", "trials"} <= record.keys():
        raise ResultsError(f"{folder} is not the folder of a run: its run.json lacks what a run's has")
    if not all(isinstance(t, dict) and "name" in t for t in trials):
        raise ResultsError(f"{folder} is not the folder of a run: its trials.jsonl has lines that are no trials")
    return Run(folder, record, trials)


def write_whole(path: Path, text: str) -> None:
    """Write a file that its readers see as it was or as it is now, never in part, also where two write it at once."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text)
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ResultsError(f"{path} cannot be written: {error.strerror}") from None


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 9)
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_rounded(v) for v in value]
    return value


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def environment() -> dict[str, Any]:
    """Versions, machine and git state, for run.json."""
    packages = {}
    for name in RECORDED_PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "not installed"
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    return {
        "versions": {"python": sys.version.split()[0], "kernel": platform.release(), **packages},
        "machine": {"processor": model, "cores": psutil.cpu_count(), "memory_gib": round(psutil.virtual_memory().total / 2**30, 1)},
        "git": {"commit": _git("rev-parse", "HEAD"), "changed": bool(_git("status", "--porcelain", "--untracked-files=no"))},
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": " ".join(["inalab", *sys.argv[1:]]),
    }
