"""The machine that a trial ran on: what it is, how fast, and whether its software is that of who asks."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from inalab.switches.cache import cache_directory
from inalab.testbed.campaign import identity
from inalab.testbed.record.provenance import processor

MEASURE = """
import hashlib, time
digest, block, blocks, begun = hashlib.sha256(), bytes(1 << 16), 0, time.perf_counter()
while (spent := time.perf_counter() - begun) < 2.5:
    digest.update(block)
    blocks += 1
print(blocks * len(block) / spent / 1e6)
"""
ROOM = 16 << 20  # bytes that a trial needs at least, in each folder that it writes to
PACKAGES = ("inalab", "torch", "numpy", "scipy", "scikit-learn", "distributed")


def versions() -> dict[str, str]:
    """What has to be the same wherever a campaign's trials run: the code that matters to them, Python, and packages."""
    return {"code": identity.code()[:12], "python": sys.version.split()[0], **{name: version(name) for name in PACKAGES}}


@cache
def fingerprint() -> dict[str, Any]:
    """Processor, kernel, and how fast its cores are: MB/s of SHA-256 on one, and on all that a trial has at once. It takes 5 s."""
    cores = len(os.sched_getaffinity(0))
    return {
        "processor": processor(), "kernel": platform.release(), "cores": cores, "one_core": round(_measured(1)),
        "all_cores": round(_measured(cores)),
    }  # fmt: skip


def unfit() -> str:
    """Why no trial can run on this machine: a folder that cannot be written, or is full. Empty if none is."""
    folder = "the folder for temporary files"
    try:
        for folder in (tempfile.gettempdir(), str(cache_directory()), "/dev/shm"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder) as file:
                os.posix_fallocate(file.fileno(), 0, ROOM)
    except OSError as error:
        return f"{folder} cannot be written: {error.strerror}"
    return ""


def _measured(processes: int) -> float:
    """MB/s that so many processes digest together."""
    running = [subprocess.Popen([sys.executable, "-c", MEASURE], stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    return sum(float(process.communicate()[0]) for process in running)
