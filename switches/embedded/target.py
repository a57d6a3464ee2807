"""The embedded switch as a target that a network can be built on."""

from __future__ import annotations

import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any

from mininet.net import Mininet
from mininet.node import Host, Switch
from mininet.topo import Topo

from ..control import ControlError
from ..sockets import packets_path, socket_path
from ..target import SwitchError, last_lines
from .build import build, c_compiler
from .control import SocketControl

START_SECONDS = 10.0


class EmbeddedSwitch(Switch):
    """A Mininet switch that runs a built program; see switches.target.RunningSwitch. It shares the caller's namespace.

    `controller` is a port whose link is a socket, at `packets_path`.
    """

    def __init__(
        self, name: str, executable: Path, logs: Path, seed: int, controller: int | None = None, **parameters: Any
    ) -> None:
        super().__init__(name, **{**parameters, "inNamespace": False})
        self.controller = controller
        self.executable, self.log, self.seed = executable, logs / f"{name}.log", seed
        self.process: subprocess.Popen[str] | None = None

    def start(self, controllers: list[Any]) -> None:
        """Start the program on the node's interfaces and wait until it answers."""
        path = socket_path(self.name)
        ports = [word for port, i in sorted(self.intfs.items()) if i.name != "lo" for word in ("-i", f"{port}@{i.name}")]
        if self.controller is not None:
            ports += ["-i", f"{self.controller}@unix:{packets_path(self.name)}"]
        with open(self.log, "w") as out:
            self.process = subprocess.Popen(
                [self.executable, *ports, "--socket", str(path), "--seed", str(self.seed)],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, text=True,
                process_group=0,  # Ctrl-C at a prompt is not for it
            )  # fmt: skip
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                return self.control().close()
            except ControlError as error:
                if self.dataplane() is None:
                    raise SwitchError(f"switch {self.name} ended at once: {self.last_words()}") from None
                if time.monotonic() > end:
                    raise SwitchError(f"switch {self.name} does not answer: {error}; {self.last_words()}") from None
                time.sleep(0.01)

    def stop(self, deleteIntfs: bool = True) -> None:  # noqa: N803 (Mininet's name)
        """End the program, by SIGTERM."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=5)
        super().stop(deleteIntfs)

    def dataplane(self) -> int | None:
        """The program's process; None when it has ended."""
        return self.process.pid if self.process is not None and self.process.poll() is None else None

    def exit_code(self) -> int | None:
        """How the program ended, -number for a signal; None while it runs."""
        return self.process.poll() if self.process is not None else None

    def control(self) -> SocketControl:
        """Control over the program's socket."""
        return SocketControl(socket_path(self.name))

    def last_words(self) -> str:
        """The last lines of the switch's log, without the one that says that it runs."""
        return last_lines(self.log).removeprefix("ready").removeprefix(" / ")


class EmbeddedTarget:
    """Switches that run one program; compiles it when made. Raises CompileError."""

    name = "embedded"

    def __init__(self, program: Path, defines: dict[str, str]) -> None:
        self.executable = build(program, defines)

    def versions(self) -> dict[str, str]:
        """The C compiler; the switch itself is of the repository's own state."""
        shown = subprocess.run([c_compiler(), "--version"], capture_output=True, text=True, check=False).stdout
        return {"cc": shown.partition("\n")[0]}

    def switch(self, name: str, logs: Path, seed: int) -> EmbeddedSwitch:
        """A switch on no interfaces yet."""
        return EmbeddedSwitch(name, self.executable, logs, seed, dpid="1")

    def network(self, topo: Topo, logs: Path, seed: int) -> Mininet:
        """The topology, built and started."""
        switch = partial(EmbeddedSwitch, executable=self.executable, logs=logs, seed=seed)
        Mininet.inited = True  # its init() changes limits of the whole machine
        network = Mininet(topo, switch=switch, host=Host, controller=None)
        network.start()
        return network
