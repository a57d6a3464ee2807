"""Where a student's programs run: without a network, with read-only files and only those they need, in bounded memory and time.

bubblewrap makes the namespaces: user, mount, PID, IPC, network. What runs inside sees the system's programs, the Python
that runs the check, inalab's own packages, and the submission. It sees no other file of the person who checks, it can
write to a small /tmp of its own alone, and all its processes end with it.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import inalab

SUBMISSION = Path("/submission")  # where the student's folder is inside
ROOT = Path(__file__).resolve().parents[2]
IMPORTED_FROM = Path(inalab.__file__).resolve().parents[1]  # the folder in which Python finds inalab
# of ROOT, and nothing else of it; in a checkout inalab/ has __init__.py, installed ROOT itself has it
PACKAGES = ("inalab", "__init__.py", "testbed", "switches", "hosts", "topologies", "schemes", "experiments")
LABS = ROOT / "labs"
GIVEN = LABS / "given"  # of the labs, what every program may include or import
MIB = 1 << 20
ENVIRONMENT = ("OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1")
START = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); del sys.argv[0]; runpy.run_module(sys.argv[0], None, '__main__', True)"
)


@dataclass(frozen=True)
class Limits:
    """Of each process: `memory` and each written `file` in MiB, open files, `seconds` of processor time."""

    memory: int = 4096
    file: int = 16
    files: int = 64
    seconds: int = 60


@functools.cache
def possible() -> bool:
    """Whether this machine can confine programs: bubblewrap is there, and the kernel allows what it does."""
    if not shutil.which("bwrap"):
        return False
    return subprocess.run([*_bubblewrap(None), "true"], capture_output=True, check=False).returncode == 0


def confined(submission: Path | None, limits: Limits = Limits(), read: Sequence[Path] = ()) -> list[str]:
    """What to put before a command so that it runs confined, in the student's folder; `read` are more files that it may read.

    Without a submission, it sees none. Where confinement is not possible, it runs with limits alone; see `possible`.
    """
    bounds = ["prlimit", f"--as={limits.memory * MIB}", f"--fsize={limits.file * MIB}", f"--cpu={limits.seconds}", "--core=0"]
    bounds.append(f"--nofile={limits.files}")
    if not possible():
        return [*bounds, "env", "-C", str(submission or "/"), *ENVIRONMENT]
    return [*bounds, *_bubblewrap(submission, read), "env", *ENVIRONMENT]


def python(module: str, *words: str) -> list[str]:
    """The command that runs a module of this copy of inalab; isolated, so that no file of a submission is a module of its."""
    return [sys.executable, "-I", "-B", "-c", START, str(IMPORTED_FROM), module, *words]


def place(submission: Path, name: str) -> str:
    """The path by which a confined program finds a file of the submission."""
    return str((SUBMISSION if possible() else submission.resolve()) / name)


def system_folders() -> Iterator[tuple[Path, str]]:
    """The root's folders of programs and libraries that this system has, and where each leads if it is a link."""
    for name in ("usr", "bin", "sbin", "lib", "lib32", "lib64"):
        folder = Path("/", name)
        if folder.is_symlink():
            yield folder, os.readlink(folder)
        elif folder.is_dir():
            yield folder, ""


def readable(*more: Path) -> list[Path]:
    """What else a program of inalab's needs, as far as it exists: Python, inalab's packages, and `more`.

    The labs may be below these, with their solutions: an installed inalab is. So LABS is hidden, and GIVEN shown again.
    """
    system = [Path("/etc", name) for name in ("ld.so.cache", "alternatives", "localtime")]
    ours = [Path(sys.base_prefix), Path(sys.prefix), *(ROOT / name for name in PACKAGES)]
    return _there([*system, *ours, *more])


def _there(paths: Sequence[Path]) -> list[Path]:
    return [path for path in dict.fromkeys(paths) if path.exists() and not path.is_relative_to("/usr")]


def _bubblewrap(submission: Path | None, read: Sequence[Path] = ()) -> list[str]:
    """bwrap and its options."""
    command = ["bwrap", "--unshare-all", "--cap-drop", "ALL", "--die-with-parent", "--new-session", "--clearenv"]
    command += ["--setenv", "PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin", "--setenv", "HOME", "/tmp"]
    command += ["--setenv", "LANG", "C.UTF-8", "--proc", "/proc", "--dev", "/dev"]
    command += [
        "--tmpfs",
        "/proc/sys",
        "--remount-ro",
        "/proc/sys",
    ]  # some of it counts what all programs do, and so tells of others
    command += ["--size", str(64 * MIB), "--tmpfs", "/tmp"]
    for folder, link in system_folders():
        command += ["--symlink", link, str(folder)] if link else ["--ro-bind", str(folder), str(folder)]
    for path in readable():
        command += ["--ro-bind", str(path), str(path)]
    command += ["--tmpfs", str(LABS)]
    for path in (GIVEN, *_there(read)):
        command += ["--ro-bind", str(path), str(path)]
    command += ["--remount-ro", str(LABS)]
    if submission is not None:
        command += ["--ro-bind", str(submission.resolve()), str(SUBMISSION)]
    return [*command, "--remount-ro", "/", "--remount-ro", "/dev", "--chdir", str(SUBMISSION if submission else "/")]
