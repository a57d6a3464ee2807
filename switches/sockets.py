"""Where running switches listen for commands: one Unix socket a switch, found by the switch's name."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from contextlib import suppress
from pathlib import Path


def socket_directory() -> Path:
    """$XDG_RUNTIME_DIR/inalab if that is this user's; else /run/inalab for root, and a folder by user number for others."""
    given = os.environ.get("XDG_RUNTIME_DIR")
    if given and _owner(Path(given)) == os.geteuid():
        return Path(given) / "inalab"
    return Path("/run/inalab") if os.geteuid() == 0 else Path(tempfile.gettempdir()) / f"inalab-{os.geteuid()}"


def own_directory() -> Path:
    """The socket directory, for this user alone. OSError where it is somebody else's, who would hear the commands.

    In /tmp anybody may have made it first.
    """
    folder = socket_directory()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    there = folder.lstat()
    if not stat.S_ISDIR(there.st_mode) or _owner(folder) != os.geteuid():
        raise OSError(f"{folder} is not a folder of this user's: set XDG_RUNTIME_DIR to one that is")
    if there.st_mode & 0o077:
        folder.chmod(0o700)
    return folder


def _owner(path: Path) -> int | None:
    try:
        return path.stat().st_uid
    except OSError:
        return None


def socket_path(name: str) -> Path:
    """The socket of a switch by name; a path stands for itself. OSError as own_directory."""
    return Path(name) if "/" in name else own_directory() / f"{name}.sock"


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
    if is_alive(path):
        raise OSError(f"a switch called {name} is running: choose another name with --name")
    return path


def running() -> list[str]:
    """Names of the switches that listen in the socket directory."""
    return sorted(path.stem for path in socket_directory().glob("*.sock") if is_alive(path))
