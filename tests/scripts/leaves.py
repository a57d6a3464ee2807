"""Tests that leave something behind, or wait; tests/unit/test_supervision.py runs them in a session of their own."""

from __future__ import annotations

import subprocess
import tempfile

WAITING = "1234.5678"  # what a program sleeps, by which it is found


def start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", WAITING], start_new_session=True)


def test_process() -> None:
    start()


def test_folder() -> None:
    tempfile.mkdtemp(prefix="left-")


def test_end() -> None:
    process = start()
    process.kill()
    process.wait()


def test_waiting() -> None:
    start().wait()
