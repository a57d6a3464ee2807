"""Whether a trial leaves anything behind: processes in its namespaces, or interfaces in ours."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

import psutil

KINDS = ("net", "mnt", "pid")


def interfaces() -> set[str]:
    """Interfaces in this namespace with the names that a trial gives (others may come and go meanwhile)."""
    return {name for name in os.listdir("/sys/class/net") if name.startswith(("tor", "root-", "spine", "mgmt", "h"))}


class Leftovers:
    """The namespaces of a trial, held open lest the kernel give their numbers to somebody else's."""

    def __init__(self) -> None:
        """Before the trial begins."""
        self.before = interfaces()
        self.held: dict[int, int] = {}  # descriptors, by inode
        self.own = {os.stat(f"/proc/self/ns/{kind}").st_ino for kind in KINDS}

    def note(self, pids: Iterable[int]) -> None:
        """Hold the namespaces that these processes are in, other than our own."""
        for pid in pids:
            for kind in KINDS:
                with suppress(OSError):
                    descriptor = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
                    inode = os.fstat(descriptor).st_ino
                    if inode in self.own or inode in self.held:
                        os.close(descriptor)
                    else:
                        self.held[inode] = descriptor

    def check(self) -> None:
        """Nothing is left: no interface, and nobody in one of the namespaces."""
        inhabited = set()
        for pid in psutil.pids():
            for kind in KINDS:
                with suppress(OSError):
                    inhabited.add(os.stat(f"/proc/{pid}/ns/{kind}").st_ino)
        left = inhabited & self.held.keys()
        for descriptor in self.held.values():
            os.close(descriptor)
        self.held.clear()
        assert not left
        assert interfaces() == self.before
