"""The embedded switch as a target that a network can be built on."""

from __future__ import annotations

import subprocess
from pathlib import Path

from switches.control import Control, SocketControl
from switches.embedded.build import build
from switches.sockets import socket_path


class EmbeddedTarget:
    """Switches that run one program; compiles it when made. Raises CompileError."""

    name = "embedded"

    def __init__(self, program: Path, defines: dict[str, str]) -> None:
        self.executable = build(program, defines)

    def launch(self, name: str, interfaces: dict[int, str], commands: list[str], log: Path, seed: int) -> subprocess.Popen[str]:
        """Start a switch; its commands and its log are files called after it in `log`."""
        told = log / f"{name}.commands"
        told.write_text("\n".join(commands) + "\n")
        path = socket_path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        ports = [word for port, interface in sorted(interfaces.items()) for word in ("-i", f"{port}@{interface}")]
        with open(log / f"{name}.log", "w") as out:
            return subprocess.Popen(
                [self.executable, *ports, "--commands", str(told), "--socket", str(path), "--seed", str(seed)],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip

    def control(self, name: str) -> Control:
        """Control of a running switch by name."""
        return SocketControl(socket_path(name))
