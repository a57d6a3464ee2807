"""A room for a student's trial: a trial makes namespaces of its own, which bubblewrap's processes may not do as root.

The room is a user, mount, PID and network namespace whose files are those that `confinement` gives, read-only. What runs in it
has no capabilities there, so the trial makes a second user namespace. In that one the room's mounts are locked: a trial can
configure its own network, and cannot make a file of the room writable.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from inalab.hosts import cores
from inalab.testbed.lab import guard
from inalab.testbed.lab.confinement import GIVEN, LABS, ROOT, SUBMISSION, readable, system_folders
from inalab.testbed.lab.lab import Failure
from inalab.testbed.lab.traffic import Traffic
from inalab.topologies import isolation

_libc = ctypes.CDLL(None, use_errno=True)
MS_BIND, MNT_DETACH = 0x1000, 2
AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = -100, 0x8000, 1
MOUNT_SETATTR = 442  # on every architecture
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
ETC = tuple(Path("/etc", name) for name in ("fonts", "hosts", "nsswitch.conf", "passwd"))
CACHE = Path("/tmp/cache")
DEVICES = ("null", "zero", "full", "random", "urandom", "net/tun")
MIB = 1 << 20
MOST_OUTPUT = MIB  # bytes that are read of what a command prints
MOST_FILES = 256 * MIB
# setfcap is what the kernel requires of who maps root into a further user namespace (user_namespaces(7))
LIMITED = ["prlimit", f"--as={16 << 30}", f"--fsize={64 * MIB}", "--nproc=1024", "--core=0"]  # PyTorch maps much more than it uses
WITHOUT_POWER = ["setpriv", "--bounding-set", "-all,+setfcap", "--inh-caps", "-all"]


class Handed(BaseModel):
    """What a confined process prints of itself: these fields and no other, of these types, with finite numbers."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class _MountAttributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns")]


def _bind(source: Path, target: Path, writable: bool = False) -> None:
    """A file or folder in another place, with what is mounted below it."""
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    isolation.mount(str(source), str(target), None, MS_BIND | isolation.MS_REC)
    if not writable:
        _read_only(target)


def _read_only(path: Path) -> None:
    wanted = _MountAttributes(set=MOUNT_ATTR_RDONLY)
    result = _libc.syscall(
        MOUNT_SETATTR, AT_FDCWD, str(path).encode(), AT_RECURSIVE, ctypes.byref(wanted), ctypes.c_size_t(ctypes.sizeof(wanted))
    )
    isolation.check(result, f"make {path} read-only")


def _hide_labs(root: Path) -> None:
    """Their solutions may be below what is there: see confinement.readable."""
    hidden = root / LABS.relative_to("/")
    hidden.mkdir(parents=True, exist_ok=True)
    isolation.mount("tmpfs", str(hidden), "tmpfs", 0, "size=1m,mode=755")
    _bind(GIVEN, root / GIVEN.relative_to("/"))
    _read_only(hidden)


def _furnish(submission: Path) -> None:
    """Mount everything that there is in the room, and make it the root."""
    submission, root = submission.resolve(), Path("/run/room")  # the new namespace's own /run
    root.mkdir()
    isolation.mount("tmpfs", str(root), "tmpfs", 0, f"size={MOST_FILES // MIB}m,mode=755")
    for folder, link in system_folders():
        if link:
            (root / folder.name).symlink_to(link)
        else:
            _bind(folder, root / folder.name)
    for path in readable(*ETC, ROOT / "p4"):
        _bind(path.resolve(), root / path.relative_to("/"))
    _hide_labs(root)
    with suppress(OSError):  # there is no cache: the submission's process builds the cores
        built = cores.CORES.build()
        _bind(built, root / CACHE.relative_to("/") / "inalab" / built.name)
    _bind(submission, root / SUBMISSION.relative_to("/"))
    for name in DEVICES:
        if Path("/dev", name).exists():
            _bind(Path("/dev", name), root / "dev" / name, writable=True)
    for name in ("proc", "sys"):
        _bind(Path("/", name), root / name, writable=True)
    for name in ("tmp", "run", "dev/shm", "dev/pts", "old"):
        (root / name).mkdir(parents=True, exist_ok=True)
    isolation.mount("devpts", str(root / "dev/pts"), "devpts", 0, "newinstance,ptmxmode=0666,mode=620")
    (root / "dev/ptmx").symlink_to("pts/ptmx")
    isolation.check(_libc.syscall(PIVOT_ROOT[platform.machine()], str(root).encode(), str(root / "old").encode()), "pivot_root")
    os.chdir("/tmp")
    isolation.check(_libc.umount2(b"/old", MNT_DETACH), "umount")


def run(command: Sequence[str], submission: Path, seconds: float, traffic: Traffic | None = None) -> tuple[int, str]:
    """Run a command; its exit code and output. What it writes to files is in memory, and gone with the room.

    `traffic` looks at its links meanwhile. Failure if it takes longer than `seconds`, or more than its processes may have together.
    """
    written = tempfile.TemporaryFile()  # noqa: SIM115 (a file without a name, which nothing inside can replace)
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/usr/sbin:/bin:/sbin",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "XDG_CACHE_HOME": str(CACHE),
        "PYTHONDONTWRITEBYTECODE": "1",
    }

    def inside() -> int:
        os.dup2(written.fileno(), 1)
        os.dup2(written.fileno(), 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        _furnish(submission)
        os.execvpe(LIMITED[0], [*LIMITED, *WITHOUT_POWER, *command], environment)

    ended = _await(isolation.start(inside, as_user=True), seconds, traffic)
    written.seek(0)
    text = written.read(MOST_OUTPUT).decode(errors="replace")
    written.close()
    if isinstance(ended, str):
        raise Failure(ended, text[-4000:])
    return ended, text


def _await(pid: int, seconds: float, traffic: Traffic | None) -> int | str:
    """The exit code, or why the process was ended with all that it began."""
    deadline, wording = time.monotonic() + seconds, None
    while not wording:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.25)
        if traffic:
            traffic.look()
        if over := guard.excess():
            wording = f"the trial's processes {over}"
        elif time.monotonic() > deadline:
            wording = f"the trial takes longer than {seconds:g} s: does a worker wait for ever?"
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return wording
