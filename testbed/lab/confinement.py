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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SUBMISSION = Path("/submission")  # where the student's folder is inside
ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("testbed", "switches", "hosts", "topologies", "schemes", "experiments")  # of ROOT, and nothing else of it
LABS = ROOT / "labs"
GIVEN = LABS / "given"  # of the labs, what every program may include or import
MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Of each process: `memory` and written files in MiB, `seconds` of processor time."""

    memory: int = 4096
    file: int = 64
    seconds: int = 60


@functools.cache
def possible() -> bool:
    """Whether this machine can confine programs: bubblewrap is there, and the kernel allows what it does."""
    return bool(shutil.which("bwrap")) and subprocess.run(_bubblewrap(None), capture_output=True, check=False).returncode == 0


def confined(
    submission: Path,
    limits: Limits = Limits(),
    read: Sequence[Path] = (),
    environment: Mapping[str, str] | None = None,
) -> list[str]:
    """What to put before a command so that it runs confined, in the student's folder; `read` are more files that it may read.

    Where confinement is not possible, the command runs with limits alone, in the submission's folder; see `possible`.
    """
    bounds = ["prlimit", f"--as={limits.memory * MIB}", f"--fsize={limits.file * MIB}", f"--cpu={limits.seconds}", "--core=0"]
    variables = {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} | dict(environment or {})
    assignments = [f"{name}={value}" for name, value in variables.items()]
    if not possible():
        return [*bounds, "env", "-C", str(submission), *assignments]
    return [*bounds, *_bubblewrap(submission, read), "env", *assignments]


def place(submission: Path, name: str) -> str:
    """The path by which a confined program finds a file of the submission."""
    return str((SUBMISSION if possible() else submission.resolve()) / name)


def python() -> str:
    """The Python that runs confined programs: this one."""
    return sys.executable


def _bubblewrap(submission: Path | None, read: Sequence[Path] = ()) -> list[str]:
    """bwrap and its options. Without a submission: followed by a command that does nothing."""
    command = ["bwrap", "--unshare-all", "--cap-drop", "ALL", "--die-with-parent", "--new-session", "--clearenv"]
    command += ["--setenv", "PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin", "--setenv", "HOME", "/tmp"]
    command += [
        "--setenv",
        "LANG",
        "C.UTF-8",
        "--proc",
        "/proc",
        "--ro-bind",
        "/proc/sys",
        "/proc/sys",
        "--dev",
        "/dev",
        "--size",
        str(64 * MIB),
        "--tmpfs",
        "/tmp",
    ]
    for folder in ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        if os.path.islink(folder):
            command += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            command += ["--ro-bind", folder, folder]
    for path in ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime"):
        command += ["--ro-bind-try", path, path]
    for path in dict.fromkeys([sys.base_prefix, sys.prefix, *(str(ROOT / name) for name in PACKAGES), str(GIVEN), *map(str, read)]):
        if not path.startswith("/usr/"):
            command += ["--ro-bind", path, path]
    if submission is None:
        return [*command, "true"]
    command += ["--ro-bind", str(submission.resolve()), str(SUBMISSION), "--remount-ro", "/", "--remount-ro", "/dev"]
    return [*command, "--chdir", str(SUBMISSION)]
