"""What a run was made with, for its run.json: versions, machine, commit, and the code where it is not the commit's."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

from inalab.hosts.drivers.sockets import granted_buffer
from inalab.testbed.record.runs import ROOT

RECORDED_PACKAGES = ("inalab", "torch", "numpy", "scipy", "scikit-learn", "matplotlib")
CODE = (
    "inalab", "experiments", "testbed", "schemes", "hosts", "switches", "topologies", "p4", "Makefile", "setup.sh",
    "pyproject.toml", "requirements.lock",
)  # fmt: skip
TOP_MODULES = ":(glob)*.py"  # Python finds these before any package of the same name
CACHES = ("__pycache__/", ".egg-info/")
MOST_FILES = 20  # named in a record


class NoCommitError(Exception):
    """The code belongs to no commit; str() says why."""


def environment(experiment: Path) -> dict[str, Any]:
    """Versions, machine and code, for run.json; `experiment` is the file of the experiment that runs."""
    packages = {name: version_of(name) for name in RECORDED_PACKAGES}
    return {
        "versions": {"python": sys.version.split()[0], "kernel": platform.release(), "mininet": mininet_version(), **packages},
        "machine": {
            "processor": processor(),
            "cores": psutil.cpu_count(),
            "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        },
        "socket_buffer_kib": granted_buffer() // 1024,  # of the user who runs it
        "git": git_state(ROOT, experiment),
        "code": {"experiment": _named(ROOT, experiment), "experiment_sha256": digest_of(experiment), "sha256": code_digest(ROOT)},
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": " ".join(["inalab", *sys.argv[1:]]),
    }


def mininet_version() -> str:
    """Debian's package is no distribution that Python knows."""
    try:
        from mininet.net import VERSION
    except ModuleNotFoundError:
        return "not installed"
    return str(VERSION)


def version_of(package: str) -> str:
    """The version of an installed package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def processor() -> str:
    """The model of this machine's processors."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def git_state(root: Path, experiment: Path) -> dict[str, Any]:
    """The commit of the code below `root`, and which files of it are not the commit's.

    A file counts if a run may execute it (CODE, modules at the top, the experiment) and it is modified, staged, untracked or
    ignored. `changed` is None, and `note` says why, where the code belongs to no commit.
    """
    try:
        if Path(_git(root, "rev-parse", "--show-toplevel").strip()).resolve() != root.resolve():
            raise NoCommitError("the code is not in a git repository of its own")
        commit = _git(root, "rev-parse", "--verify", "HEAD").strip()
        files = _differing(root, experiment)
    except NoCommitError as error:
        return {"commit": "", "changed": None, "files": [], "note": f"no commit is known: {error}"}
    state = {"commit": commit, "changed": bool(files), "files": files[:MOST_FILES]}
    if len(files) > MOST_FILES:
        state["note"] = f"{len(files)} files differ from the commit: the first {MOST_FILES} are named"
    return state


def described(git: dict[str, Any], length: int) -> str:
    """The commit in so many digits and whether the code differs from it, in words; empty where a record has neither."""
    if git.get("note") and not git.get("commit"):
        return str(git["note"])
    return str(git.get("commit") or "")[:length] + (", with changes" if git.get("changed") else "")


def code_digest(root: Path, names: Sequence[str] = CODE) -> str:
    """SHA-256 over names and contents of all files of CODE, or of these: equal digests are equal code, whatever git knows of it."""
    whole = hashlib.sha256()
    for name in names:
        for path in sorted([root / name, *(root / name).rglob("*")]):
            relative = path.relative_to(root).as_posix()
            if path.is_file() and not any(cache in relative for cache in CACHES):
                whole.update(f"{relative}\0{digest_of(path)}\n".encode())
    return whole.hexdigest()


def _differing(root: Path, experiment: Path) -> list[str]:
    outside = not experiment.resolve().is_relative_to(root.resolve())
    paths = [*CODE, TOP_MODULES] + ([] if outside else [f":(literal){_named(root, experiment)}"])
    listed = _git(
        root, "status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all", "--ignored=traditional", "--", *paths
    )
    names = sorted(entry[3:] for entry in listed.split("\0") if entry)
    found = [name for name in names if not any(cache in name for cache in CACHES)]
    return ([str(experiment)] if outside else []) + found


def _git(root: Path, *words: str) -> str:
    """What git prints of the repository at `root`; it leaves the index alone, and no variable leads it elsewhere."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    command = ["git", "--no-optional-locks", "-c", f"safe.directory={root.resolve()}", "-C", str(root), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="surrogateescape", check=False, env=clean)
    except OSError:
        raise NoCommitError("git is not installed") from None
    if done.returncode:
        raise NoCommitError(next(iter(done.stderr.splitlines()), f"git {words[0]} failed").removeprefix("fatal: "))
    return done.stdout


def _named(root: Path, path: Path) -> str:
    """The path below `root`, or as it is where it lies elsewhere."""
    return path.resolve().relative_to(root.resolve()).as_posix() if path.resolve().is_relative_to(root.resolve()) else str(path)


def digest_of(path: Path) -> str:
    """SHA-256 over a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
