"""inalab watch --pace: a switch takes one packet after the other, and its memory is shown before and after each."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from rich.console import Console

from inalab.schemes.scheme import Admitted
from inalab.switches.control import ControlError
from inalab.switches.embedded.compiler import check_p4
from inalab.switches.embedded.control import SocketControl
from inalab.switches.embedded.types import EnumType, Header, bit_width
from inalab.testbed.command.terminal import styled
from inalab.testbed.plan.settings import SettingsError
from inalab.testbed.trial.discovery import RunningTrial

ARRIVES = 1.0  # seconds that a step waits for a packet
LOOKS = 0.005  # seconds between two looks whether one has come
LAST = re.compile(r"admitted=(\d+) port=(\d+) length=(\d+) bytes=([0-9a-f]*)")
BELOW = ("ethernet", "ipv4", "udp")  # headers in front of the scheme's
Memory = dict[tuple[str, int], tuple[list[str], list[str]]]  # by job and slot: who is in and who is missing


def step_through(console: Console, trial: RunningTrial, switch: str | None, pace: float) -> int:
    """Pause a switch, and let it take a packet every `pace` seconds, or with 0 at each Enter; the exit code.

    `q`, Ctrl-C or the end of the input let it run on. Raises SettingsError for a switch that the trial does not have.
    """
    plan = trial.settings.plan()
    name = switch or next(iter(plan.switches))
    if name not in plan.switches:
        raise SettingsError(f"the trial has no switch {name}: choose one of {', '.join(plan.switches)}")
    try:
        with SocketControl(trial.sockets / f"{name}.sock") as control:
            stepping = _Stepping(console, control, trial, name)
            control.command("pause")
            console.print(f"{name} is paused: {'Ctrl-C' if pace else 'Enter takes the next packet, q'} lets it run on")
            try:
                stepping.run(pace)
            except (KeyboardInterrupt, EOFError):
                pass
            finally:
                control.command("resume")
                console.print(f"{name} runs on")
    except ControlError as error:
        console.print(f"{name} does not answer: has the trial ended? ({error})")
        return 1
    return 0


class _Stepping:
    """A switch that is stepped through."""

    def __init__(self, console: Console, control: SocketControl, trial: RunningTrial, name: str) -> None:
        self.console, self.control, self.name = console, control, name
        self.plan = trial.settings.plan()
        self.own, self.running = trial.watched(self.plan), trial.settings.running()
        self.peers = {a.port: a.peer for a in self.plan.switches[name].attachments}
        self.layout = _layout(self.own) if len(self.running.schemes) == 1 else []

    def run(self, pace: float) -> None:
        while True:
            if pace:
                time.sleep(pace)
            elif self.console.input("").strip() == "q":
                return
            before, admitted = self._memory(), self._last()[0]
            self.control.command("step")
            deadline = time.monotonic() + ARRIVES
            while (last := self._last())[0] == admitted and time.monotonic() < deadline:
                time.sleep(LOOKS)
            if last[0] == admitted:
                self.console.print("no packet waits", style="dim")
                self.control.command("pause")  # the step is taken back
                continue
            number, port, length, data = last
            where = self.peers.get(port, f"port {port}")
            self.console.print(styled((str(number), "bold"), f" from {where}, {length} bytes: {self._told(data)}"))
            for line in _changes(before, self._memory()):
                self.console.print(f"    {line}")

    def _last(self) -> tuple[int, int, int, bytes]:
        found = LAST.search(self.control.command("show_last"))
        assert found
        return int(found[1]), int(found[2]), int(found[3]), bytes.fromhex(found[4])

    def _memory(self) -> Memory:
        cells = self.running.memory(self.control, self.plan, self.name, self.own)
        return {(part.title, slot): taken for part in cells for slot, taken in part.taken.items()}

    def _told(self, data: bytes) -> str:
        """The fields of the scheme's header, by the layout of the P4 program."""
        whole, at = int.from_bytes(data, "big"), 0
        words = []
        for header, name, width, names in self.layout:
            at += width
            if at > 8 * len(data):
                return "not a whole header"
            value = whole >> (8 * len(data) - at) & ((1 << width) - 1)
            if header not in BELOW:
                words.append(f"{name} {names.get(value, value)}")
        nothing = "nothing that this scheme sends" if len(self.running.schemes) == 1 else f"of {self.running.name}, not told apart"
        return ", ".join(words) or nothing


def _layout(own: Sequence[Admitted]) -> list[tuple[str, str, int, dict[int, str]]]:
    """The fields of a packet up to the end of the scheme's header: header, field, width in bits, and the names of its values."""
    program = own[0].scheme.program if own else None
    found: list[tuple[str, str, int, dict[int, str]]] = []
    if program is None:
        return found
    fields = {field.name: field.type for field in check_p4(program).headers.fields}
    for header in (*BELOW, own[0].scheme.protocol or own[0].scheme.name):
        type_ = fields.get(header)
        for field in type_.fields if isinstance(type_, Header) else ():
            names: dict[int, str] = {}
            if isinstance(field.type, EnumType):
                names = {field.type.value(member): member for member in field.type.members}
            found.append((header, field.name, bit_width(field.type), names))
    return found


def _changes(before: Memory, after: Memory) -> list[str]:
    """What a packet has changed in the memory, a line a slot."""
    lines = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old != new:
            lines.append(f"{key[0]} {key[1]}: {_state(old)} → {_state(new)}")
    return lines or ["the memory is as it was"]


def _state(taken: tuple[list[str], list[str]] | None) -> str:
    if taken is None:
        return "free"
    inside, missing = taken
    wording = f"has {', '.join(inside) or 'no worker'}"
    return f"{wording}, waits for {', '.join(missing)}" if missing else f"{wording}"
