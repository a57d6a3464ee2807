"""Where running switches listen for commands: one Unix socket a switch, found by the switch's name."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path


def socket_directory() -> Path:
    """$XDG_RUNTIME_DIR/inalab; without it /run/inalab for root, and a folder by user number for others."""
    if given := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(given) / "inalab"
    return Path("/run/inalab") if os.geteuid() == 0 else Path(tempfile.gettempdir()) / f"inalab-{os.geteuid()}"


def socket_path(name: str) -> Path:
    """The socket of a switch by name; a path stands for itself."""
    return Path(name) if "/" in name else socket_directory() / f"{name}.sock"


def packets_path(name: str) -> Path:
    """The socket of a switch's port to a controller."""
    return socket_directory() / f"{name}.packets"


def is_alive(path: Path) -> bool:
    """True if a switch answers there."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def claim_socket(name: str) -> Path:
    """A socket path for a new switch; OSError if the name is none, or a running switch has it."""
    if not name or "/" in name:
        raise OSError(f"{name!r} is no name for a switch: give one without a slash, or a path with --socket")
    path = socket_path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if is_alive(path):
        raise OSError(f"a switch called {name} is running: choose another name with --name")
    return path


def running() -> list[str]:
    """Names of the switches that listen in the socket directory."""
    return sorted(path.stem for path in socket_directory().glob("*.sock") if is_alive(path))
