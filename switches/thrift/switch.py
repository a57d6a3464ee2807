"""The switch behind the services: its program, and its commands with their refusals as Thrift's errors."""

from __future__ import annotations

import re
import threading
from typing import Any

from ..control import CommandError, Control, ControlError
from . import errors
from .program import Program, read_program


def word(octets: bytes) -> str:
    """A number as commands have it."""
    return f"0x{octets.hex()}"


LONGEST = 16000  # characters of a command: a switch takes some more


class Switch:
    """Runs commands one at a time, for any thread. `port` is where clients found it."""

    def __init__(self, control: Control, port: int) -> None:
        self.control, self.port = control, port
        self.lock = threading.RLock()
        self._program: Program | None = None

    @property
    def program(self) -> Program:
        with self.lock:
            if self._program is None:
                try:
                    self._program = read_program(self.control)
                except ControlError as lost:
                    raise errors.sentence(lost) from None
            return self._program

    def require(self, kind: str, name: str, error: str, code: str) -> None:
        """Refuse a name that no resource of a kind has. Whole names count, as with BMv2: short ones are simple_switch_CLI's."""
        if all(one.name != name for one in self.program.of_kind(kind)):
            self.same()
            raise errors.error(error, code)

    def same(self) -> None:
        """Find out whether it is still the switch whose program is known: it may have ended, and run again with another."""
        self.run(None, "get_time_elapsed")

    def run(self, error: str | None, *words: Any) -> str:
        """The answer to a command. What it is refused for is raised as that error; None: as text."""
        texts = [str(one) for one in words]
        if any(not re.fullmatch(r"[^\s\0]+", text) for text in texts):
            raise errors.sentence("a name is one word")
        line = " ".join(texts)
        if len(line) > LONGEST:
            raise errors.sentence(f"names and values are too long for a command of {LONGEST} characters")
        try:
            with self.lock:
                return self.control.command(line)
        except CommandError as refused:
            raise (errors.of(error, refused) if error else errors.sentence(refused)) from None
        except ControlError as lost:
            self._program = None
            raise errors.sentence(lost) from None

    def number(self, error: str | None, *words: Any) -> int:
        """That of a command whose answer ends with a number."""
        return int(self.run(error, *words).split()[-1])
