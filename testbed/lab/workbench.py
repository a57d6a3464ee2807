"""What a task works with: the submission's programs and modules, running; all of them end with the task."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from inalab.testbed.lab.guard import Guard
from inalab.testbed.lab.lab import Failure
from inalab.testbed.lab.student import StudentHost, StudentModule
from inalab.testbed.lab.switch import StudentSwitch, compiled

LONGEST = 120.0  # seconds that a task may take


class Workbench:
    """One task's view of a submission."""

    def __init__(
        self, submission: Path, files: Sequence[str], longest: float = LONGEST, shared: dict[Hashable, Any] | None = None
    ) -> None:
        """`shared` keeps what `once` makes for all tasks of a check."""
        self.submission, self.files = submission, list(files)
        self.shared = {} if shared is None else shared
        self.deadline = time.monotonic() + longest
        self.stack, self.guard = ExitStack(), Guard()
        self.switches: list[StudentSwitch] = []
        self.modules: dict[tuple[Path, str, str], StudentModule] = {}

    def __enter__(self) -> Workbench:
        self.stack.enter_context(self.guard)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stack.close()

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What `make` gives the first time that a task of this check asks for it; also a Failure is kept."""
        if key not in self.shared:
            try:
                self.shared[key] = make()
            except Failure as failure:
                self.shared[key] = failure
        if isinstance(self.shared[key], Failure):
            raise self.shared[key]
        return self.shared[key]

    def switch(
        self, commands: Sequence[str] = (), ports: int = 8, defines: Mapping[str, str] | None = None, seed: int = 1
    ) -> StudentSwitch:
        """The submission's P4 program on a switch of its own."""
        program = next(file for file in self.files if file.endswith(".p4"))
        macros = tuple(sorted((defines or {}).items()))
        executable = self.once(macros, lambda: compiled(self.submission, program, dict(macros)))
        made = StudentSwitch(self.submission, executable, ports, commands, seed, self.deadline)
        self.guard.add(made.offline.process)
        self.stack.callback(made.close)
        self.switches.append(made)
        return made

    def module(self, file: str | None = None, label: str = "") -> StudentModule:
        """A Python file of the submission, imported once a task and `label`; each label has a confinement of its own."""
        return self._imported(self.submission, file, label)

    def host(self, name: str, label: str, file: str | None = None) -> StudentHost:
        """A host of a network, of the class `name`; `label` tells it from others in messages.

        Nothing but the network leads from one host to another: each label has a confinement of its own.
        """
        return self._host(self._imported(self.submission, file, label), name, label)

    def given_host(self, file: Path, name: str, label: str) -> StudentHost:
        """A host whose class a file defines that the lab gives; it runs like the student's."""
        return self._host(self._imported(file.parent, file.name), name, label)

    def _host(self, module: StudentModule, name: str, label: str) -> StudentHost:
        made = StudentHost(module, name, label)
        self.stack.callback(made.close)
        return made

    def _imported(self, folder: Path, file: str | None, label: str = "") -> StudentModule:
        file = file or next(file for file in self.files if file.endswith(".py"))
        if (folder, file, label) not in self.modules:
            made = self.modules[folder, file, label] = StudentModule(folder, file, self.deadline)
            self.guard.add(made.process)
            self.stack.callback(made.close)
        return self.modules[folder, file, label]

    def output(self) -> str:
        """What the submission's Python has printed."""
        return "".join(module.output() for module in self.modules.values())
