"""Where compiled programs are kept."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory() -> Path:
    """Where executables are kept: $XDG_CACHE_HOME/inalab, by default ~/.cache/inalab."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "inalab"
