"""All tests of a session run in namespaces of their own: what they start or make ends with them, also where pytest is killed.

The command that was given stays outside. It runs itself again inside, as the second process of a PID namespace, with a
loopback interface and folders for temporary files of its own, and with the disposition of SIGINT that programs expect, which
they do not get from a shell's `&` or from nohup. At the end it prints the processor time of all that ran.
"""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from inalab.hosts.drivers.verbs import MACHINE
from inalab.topologies import isolation

INSIDE = "INALAB_TESTS_INSIDE"
TEMPORARY = Path("/dev/shm")  # a short path, which sockets need
SOFT_ROCE = Path("/sys/module/rdma_rxe")
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
FAILED = 1
GRACE = 5.0  # seconds for what has been killed to be gone


def needed() -> bool:
    """Whether this session is not supervised yet, and can be."""
    return INSIDE not in os.environ and isolation.possible()


def again() -> int:
    """Run the command of this process again inside; its exit code, or 1 where something is left when it ends.

    Soft-RoCE works in the machine's network namespace alone: where it is loaded, those inside know that.
    """
    if SOFT_ROCE.exists() and MACHINE not in os.environ:
        network = os.open("/proc/self/ns/net", os.O_RDONLY)
        os.set_inheritable(network, True)
        os.environ[MACHINE] = str(network)
    held = signal.signal(signal.SIGINT, signal.SIG_IGN)  # at a terminal Ctrl-C reaches the inner one, too
    try:
        code = isolation.wait(isolation.start(_first_process, session=False, keep_user=True))
    finally:
        signal.signal(signal.SIGINT, held)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    minutes, seconds = divmod(round(used.ru_utime + used.ru_stime), 60)
    print(f"processor time {minutes} min {seconds} s (user and system, children included)", flush=True)
    return code


def _first_process() -> int:
    os.environ[INSIDE] = os.environ["TMPDIR"] = str(TEMPORARY)
    isolation.mount("tmpfs", str(TEMPORARY), "tmpfs", 0, "mode=1777")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.execv(sys.executable, sys.orig_argv)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        ended, status = os.wait()
        if ended == pid:
            break
    left = [each for each in psutil.process_iter() if each.pid != os.getpid() and not _harmless(each)]
    for process in left:
        print(f"left when the tests had ended: {_words(process)}", file=sys.stderr)
    code = os.waitstatus_to_exitcode(status)
    return code or (FAILED if left else 0)


class Leftovers:
    """What the tests of this process have left: processes, and files among the temporary ones."""

    def __init__(self) -> None:
        """Of what begins from now on. Orphans, which belong to nobody, are known by their folder for temporary files."""
        self.own = psutil.Process()
        self.names: dict[psutil.Process, str] = {}  # processes, and the test after which each was seen first
        self.files: dict[Path, str] = dict.fromkeys(_files(), "")

    def note(self, test: str) -> None:
        """Look after a test; what its module's fixtures hold may still go."""
        for process in self._processes():
            self.names.setdefault(process, test)
        for path in _files():
            self.files.setdefault(path, test)

    def left(self) -> list[str]:
        """After a module: a sentence for all that is left of it. Processes are killed, and nothing is told twice."""
        found = []
        psutil.wait_procs(self._processes(), GRACE)  # the kernel may be at it
        for process in self._processes():
            found.append(f"{self.names.get(process, 'a fixture')} has left a process: {_words(process)}")
            with suppress(psutil.Error):
                process.kill()
                process.wait(GRACE)
        self.names.clear()
        for path in _files():
            test = self.files.setdefault(path, "a fixture")
            if test:
                found.append(f"{test} has left {path}")
                self.files[path] = ""
        return found

    def _processes(self) -> list[psutil.Process]:
        orphans = [each for each in _below(psutil.Process(1), recursive=False) if _folder_of(each) == os.environ["TMPDIR"]]
        found = [*_below(self.own), *orphans, *(child for each in orphans for child in _below(each))]
        return [each for each in found if not _harmless(each)]


def _files() -> list[Path]:
    """Temporary files and folders; pytest's own folder, which has its own rules, and what PyTorch and matplotlib keep, left out."""
    folder = Path(os.environ.get("TMPDIR", "/tmp"))
    return [path for path in folder.iterdir() if not path.name.startswith(("pytest-of-", "torch", "matplotlib-"))]


def _below(process: psutil.Process, recursive: bool = True) -> list[psutil.Process]:
    try:
        return list(process.children(recursive=recursive))
    except psutil.Error:  # it has just ended
        return []


def _folder_of(process: psutil.Process) -> str | None:
    try:
        return process.environ().get("TMPDIR")
    except psutil.Error:
        return None


def _words(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return " ".join(process.cmdline())[:200] or str(process.name())
    return "it has just ended"


def _harmless(process: psutil.Process) -> bool:
    """It has ended; or it is Python's own helper, which lasts as long as the process that uses shared memory."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE or any("resource_tracker" in word for word in process.cmdline())
    except psutil.Error:
        return True
