"""A temporary folder that goes with the process that needs it."""

from __future__ import annotations

import os
import select
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch(prefix: str) -> Iterator[Path]:
    """A folder in /tmp, or where TMPDIR says. A process of its own removes it when this one ends, also by SIGKILL."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    owner = os.pidfd_open(os.getpid())
    keeper = os.fork()
    if keeper == 0:
        try:
            os.setsid()  # Ctrl-C is for the owner
            ended = select.poll()
            ended.register(owner, select.POLLIN)
            ended.poll()
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os._exit(0)
    os.close(owner)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.kill(keeper, signal.SIGKILL)
        os.waitpid(keeper, 0)
