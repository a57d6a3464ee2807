"""What runs the switches of a network: a Mininet switch for each, and the Mininet that holds them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from .control import Control

if TYPE_CHECKING:  # where no network is made, Mininet need not be there
    from mininet.net import Mininet
    from mininet.topo import Topo


class SwitchError(RuntimeError):
    """A switch did not start, or has ended; str() tells with its last words."""


class RunningSwitch(Protocol):
    """A Mininet switch whose dataplane runs from start() to stop()."""

    name: str

    def start(self, controllers: list[Any]) -> None:
        """Start the dataplane on the node's interfaces; when this returns it takes commands. Raises SwitchError."""
        ...

    def stop(self, deleteIntfs: bool = True) -> None: ...  # noqa: N803 (Mininet's name)

    def dataplane(self) -> int | None:
        """The process that moves the packets; None when it has ended."""
        ...

    def exit_code(self) -> int | None:
        """How the dataplane ended, -number for a signal; None while it runs."""
        ...

    def control(self) -> Control: ...

    def last_words(self) -> str:
        """The last lines of the switch's log."""
        ...


class Target(Protocol):
    """One way to run one P4 program."""

    name: str

    def versions(self) -> dict[str, str]:
        """What the target is made of, for the record of a run."""
        ...

    def switch(self, name: str, logs: Path, seed: int) -> RunningSwitch:
        """A switch on no interfaces yet; see `on_interfaces`."""
        ...

    def network(self, topo: Topo, logs: Path, seed: int) -> Mininet:
        """The topology, built and started. Must be called in namespaces of its own. Raises SwitchError."""
        ...


def on_interfaces(switch: RunningSwitch, interfaces: dict[int, str]) -> RunningSwitch:
    """Start a switch on interfaces that exist, by port; the switch."""
    from mininet.link import Intf

    for port, interface in sorted(interfaces.items()):
        Intf(interface, node=switch, port=port)
    switch.start([])
    return switch


def tell(switch: RunningSwitch, commands: list[str]) -> Control:
    """Control of a switch that has taken these commands; raises ControlError at the first that it refuses."""
    control = switch.control()
    for line in commands:
        control.command(line)
    return control


def last_lines(log: Path, lines: int = 3) -> str:
    """The end of a log file, on one line."""
    return " / ".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else "no log"
