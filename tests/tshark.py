"""Captures read by tshark, with the dissector that `inalab dissector` writes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

TSHARK = shutil.which("tshark")
# over InfiniBand: what the numbers in a message may happen to look like
GUESSED = ("fcoib", "infiniband.eoib", "infiniband_sdp", "iser", "lnet", "nvme-rdma", "rpcordma", "smb_direct", "smc")
needs_tshark = pytest.mark.skipif(TSHARK is None, reason="tshark is not installed: BROWSER=1 make setup installs it")


def dissected(capture: Path, dissector: Path, name: str) -> list[dict[str, Any]]:
    """What the dissector finds in each packet of a protocol `name`, as text by field."""
    text = _run(capture, dissector, "-Y", name, "-T", "json", "--no-duplicate-keys")
    return [packet["_source"]["layers"][name] for packet in json.loads(text)]


def column(capture: Path, dissector: Path, *fields: str, only: str = "frame") -> list[list[str]]:
    """These fields of each packet that the filter `only` lets pass."""
    words = [word for field in fields for word in ("-e", field)]
    return [line.split("\t") for line in _run(capture, dissector, "-Y", only, "-T", "fields", *words).splitlines()]


def _run(capture: Path, dissector: Path, *words: str) -> str:
    assert TSHARK
    guesses = [word for name in GUESSED for word in ("--disable-protocol", name)]
    command = [TSHARK, "-n", *guesses, "-X", f"lua_script:{dissector}", "-r", str(capture), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "Lua" not in done.stderr, done.stderr
    return done.stdout
