"""What a running switch takes and tells, whichever target it runs on."""

from __future__ import annotations

from typing import Protocol


class ControlError(Exception):
    """A switch refused a command, or does not answer; str() is one sentence."""


class CommandError(ControlError):
    """A switch refused a command, and takes others."""


class Control(Protocol):
    """Commands in the words of simple_switch_CLI, and the state that experiments read. All may raise ControlError."""

    def command(self, line: str) -> str:
        """Run one command; its output. Raises ControlError if the switch refuses it."""
        ...

    def register(self, name: str, cell: int) -> int:
        """One cell of a register."""
        ...

    def registers(self, name: str) -> list[int]:
        """All cells of a register."""
        ...

    def counter(self, name: str, cell: int) -> int:
        """Packets counted in one cell of a counter."""
        ...

    def ports(self) -> dict[int, dict[str, int]]:
        """What each port counted: packets received and sent, and as far as the target knows them, packets dropped."""
        ...

    def pauses(self) -> int:
        """How often somebody who watches has kept the switch from taking packets."""
        ...

    def close(self) -> None:
        """End the connection; the switch goes on."""
        ...
