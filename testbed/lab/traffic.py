"""What the links of a trial's hosts carry, as the kernel counts it, seen from outside, where no scheme can change it."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

import psutil

DATA_LINK = re.compile(r"h\d+-eth0")  # of a host, at its own end


class Traffic:
    """Bytes by interface that this process's descendants have received and sent, in networks that are not its own."""

    def __init__(self) -> None:
        self.carried: dict[str, tuple[int, int]] = {}

    def look(self) -> None:
        """Read the counters; a network is gone with its processes, so this is called again and again."""
        seen = {_network(os.getpid())}
        for process in psutil.Process().children(recursive=True):
            with suppress(OSError):
                if (network := _network(process.pid)) not in seen:
                    seen.add(network)
                    self._read(Path(f"/proc/{process.pid}/net/dev").read_text())

    def _read(self, text: str) -> None:
        for line in text.splitlines():
            name, _, counts = line.partition(":")
            if DATA_LINK.fullmatch(name.strip()):
                fields = counts.split()  # received: bytes and seven others; sent: bytes, …
                self.carried[name.strip()] = int(fields[0]), int(fields[8])


def _network(pid: int) -> str:
    return os.readlink(f"/proc/{pid}/ns/net")
