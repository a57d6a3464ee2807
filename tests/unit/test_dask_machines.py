"""Machines of a Dask cluster, whose tests (tests/dask_cluster.py) have a process of their own."""

from __future__ import annotations

import subprocess
import sys


def test_machines_of_a_dask_cluster() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/dask_cluster.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "...." in done.stdout
