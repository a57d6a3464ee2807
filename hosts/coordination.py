"""The connection between a worker and its trial's coordinator: a secret first, then messages.

Both ends notice within SILENCE seconds that the network between them is cut.
"""

from __future__ import annotations

import socket
import sys
from multiprocessing.connection import Connection
from pathlib import Path

from inalab.hosts.tcp.kernel import notice_silence

SILENCE = 6.0  # seconds without an answer after which the kernel ends a connection
LONG_SILENCE = 60.0  # likewise, of jobs whose members change, which do without the coordinator for as long as nothing changes
CONNECT_SECONDS = 30.0
LOST = 75  # exit code of a worker that does not reach its coordinator (EX_TEMPFAIL of sysexits.h)


def connect(coordinator: tuple[str, int], secret: bytes, silence: float = SILENCE) -> Connection:
    """A worker's end, which the kernel closes after so many seconds of silence. OSError if the coordinator cannot be reached."""
    made = socket.create_connection(coordinator, timeout=CONNECT_SECONDS)
    made.settimeout(None)
    notice_silence(made, silence)
    made.sendall(secret)
    return Connection(made.detach())


def connect_worker(rank: int, coordinator: tuple[str, int], secret: bytes, silence: float = SILENCE) -> Connection | None:
    """See `connect`; this process is a worker's, and is called so. It prints why there is no connection."""
    Path("/proc/self/comm").write_text(f"worker{rank}")  # what ps and top call it
    try:
        return connect(coordinator, secret, silence)
    except OSError as error:
        print(f"inalab: worker {rank} does not reach the coordinator: {error}", file=sys.stderr)
        return None
