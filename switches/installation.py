"""Commands that a running switch takes at once, and that can be taken back."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .commands import Commands
from .control import Control, ControlError


class Installation(Commands):
    """What has been added to a switch: table entries, multicast groups and nodes. ControlError where it refuses one."""

    def __init__(self, control: Control) -> None:
        super().__init__()
        self.control = control
        self.undo: list[str] = []  # commands that take back what was added, in the order of that

    def add(self, *lines: str) -> None:
        """Carry out commands that create no multicast node."""
        for line in lines:
            answer = self.control.command(line)
            self.lines.append(line)
            match line.split():
                case ["table_add", table, *_]:
                    self.undo.append(f"table_delete {table} {_handle(line, answer)}")
                case ["mc_mgrp_create", group]:
                    self.undo.append(f"mc_mgrp_destroy {group}")

    def multicast_node(self, group: int, replica: int, ports: Iterable[int]) -> int:
        """See Commands. The handle is the one that the switch answers with."""
        line = f"mc_node_create {replica} {' '.join(map(str, ports))}"
        handle = _handle(line, self.control.command(line))
        self.lines.append(line)
        self.undo.append(f"mc_node_destroy {handle}")
        self.add(f"mc_node_associate {group} {handle}")
        return handle

    def remove(self) -> None:
        """Take back all that was added."""
        while self.undo:
            self.control.command(self.undo.pop())


def _handle(line: str, answer: str) -> int:
    """That a switch has given to what a command added."""
    found = re.search(r"handle (\d+)", answer)
    if found is None:
        raise ControlError(f"the switch does not say which handle `{line}` has: {answer.strip()!r}")
    return int(found[1])
