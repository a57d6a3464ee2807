"""A student's P4 program on the embedded switch, confined, and packets that it is to answer in a certain way."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from scapy.packet import Packet

from inalab.switches.cache import cache_directory
from inalab.switches.control import CommandError, ControlError
from inalab.switches.embedded.build import RUNTIME, build_c, compiler_command, digest_of_c, objects_of, runtime_objects
from inalab.switches.embedded.errors import CompileError
from inalab.switches.embedded.offline import OfflineSwitch
from inalab.switches.embedded.parse import grammar_tables
from inalab.testbed.lab import steps, trace
from inalab.testbed.lab.confinement import GIVEN, Limits, confined, place, possible, python
from inalab.testbed.lab.lab import Failure
from inalab.testbed.lab.packets import parsed, wire
from inalab.topologies.isolation import ending

COMPILING = 60  # seconds
RUNNING = Limits(memory=1024)
PATIENCE = 15.0  # seconds that a packet or command may take
MOST_OUTPUT = 16 << 20  # bytes that it may cause
MOST_COPIES = 256  # resubmissions, recirculations and clones that a packet of a lab may need


def compiled(submission: Path, program: str, defines: Mapping[str, str]) -> Path:
    """The executable of a program of the submission. Failure shows the compiler's message.

    P4 becomes C in confinement, because a program may include any file, and C an executable in another one, because that C
    may include any file, too. The executable runs in confinement alone.
    """
    if not (submission / program).is_file():
        raise Failure(f"there is no {program} in the folder that is checked")
    options = [word for name, value in defines.items() for word in ("-D", f"{name}={value}")]
    cached = grammar_tables()
    command = [*confined(submission, read=[cached]), f"XDG_CACHE_HOME={cached.parent.parent}"]
    command += python("inalab.switches.embedded", place(submission, program), *options, "-I", str(GIVEN), "--trace", "--emit-c")
    c = _output(command, program)
    try:
        if not possible():
            return build_c(c.decode(errors="replace"), Path(program).stem)
        target = cache_directory() / f"confined-{digest_of_c(c.decode(errors='replace'))}"
        if not target.exists():
            _keep(_executable(c, program), target)
    except CompileError as error:
        raise Failure(f"{program} does not compile", str(error)) from None
    return target


def _executable(c: bytes, program: str) -> bytes:
    """What the C compiler makes of a program."""
    with runtime_objects() as runtime:
        pass
    under = confined(None, read=[runtime])
    parts = ["-I", str(RUNTIME), "-x", "c", "-", "-x", "none", *objects_of(runtime), "-o", "/tmp/switch"]
    return _output([*under, "sh", "-c", '"$@" && cat /tmp/switch', "sh", *compiler_command(), *parts], program, c)


def _keep(executable: bytes, target: Path) -> None:
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
        file.write(executable)
    made = Path(file.name)
    made.chmod(0o755)
    made.rename(target)


def _output(command: Sequence[str], program: str, text: bytes = b"") -> bytes:
    """What a compiler prints that gets this text. Failure if it does not end well."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as made, tempfile.TemporaryFile() as errors:
        given.write(text)  # files, because these have a limit
        given.seek(0)
        try:
            done = subprocess.run(command, stdin=given, stdout=made, stderr=errors, timeout=COMPILING, check=False)
        except subprocess.TimeoutExpired:
            raise Failure(f"{program} takes longer than {COMPILING} s to compile") from None
        if done.returncode:
            wording = _content(errors).decode(errors="replace").strip()[-4000:]
            raise Failure(f"{program} does not compile", wording or f"the compiler {ending(done.returncode)}")
        return _content(made)


def _content(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read()


class StudentSwitch:
    """A running program. `commands` fill its tables; packets are scapy's, or bytes."""

    def __init__(self, submission: Path, executable: Path, ports: int, commands: Sequence[str], seed: int, deadline: float) -> None:
        self.submission, self.deadline = submission, deadline
        under = confined(None, RUNNING, [executable])
        self.offline = OfflineSwitch(executable, ports, seed, MOST_COPIES, under, PATIENCE, MOST_OUTPUT)
        try:
            for command in commands:
                self.command(command)
        except Failure:
            self.close()  # no other has it yet
            raise

    def command(self, line: str) -> str:
        """Run a command of simple_switch_CLI. Failure if the program lacks what it names."""
        self._in_time()
        try:
            return self.offline.command(line)
        except CommandError as error:
            raise Failure(f"the switch refuses the command `{line}`: {error}") from None
        except ControlError as error:
            raise _ended(error) from None

    def send(self, port: int, packet: bytes) -> list[tuple[int, bytes]]:
        """Let a packet arrive; what leaves because of it."""
        self._in_time()
        try:
            return self.offline.send(port, packet)
        except ControlError as error:
            raise _ended(error) from None

    def _in_time(self) -> None:
        if time.monotonic() > self.deadline:
            raise Failure("the task takes too long, at last in the P4 program")

    def expect(
        self, port: int, packet: Packet, expected: Sequence[tuple[int, Packet]], about: str, ignoring: Sequence[str] = ()
    ) -> None:
        """Let a packet arrive. Failure, which says `about`, unless it causes the `expected` packets at their ports, in any order.

        Fields named in `ignoring` may have any value: another task is about them.
        """
        arrived = wire(packet)
        came = [(p, parsed(data)) for p, data in self.send(port, arrived)]
        wanted = [(p, parsed(wire(e))) for p, e in expected]
        text = trace.failure((port, parsed(arrived)), wanted, came, steps.read(self.command("show_trace")), self.source, ignoring)
        if text is not None:
            raise Failure(about, text)

    def source(self, step: steps.Step) -> str | None:
        """The line of a step, if it is the student's."""
        return steps.source(step, self.submission)

    def check_ends(self) -> None:
        """Failure if a packet caused endlessly many others."""
        with suppress(ControlError):
            lines = self.offline.command("show_copies")
            if any(int(word.partition("=")[2] or 0) for word in lines.split() if word.startswith("refused=")):
                raise Failure(
                    f"one packet caused more than {MOST_COPIES} resubmissions, recirculations or clones: "
                    "the program sends it round endlessly"
                )

    def close(self) -> None:
        """End it."""
        self.offline.process.kill()
        with suppress(Exception):
            self.offline.close()


def _ended(error: ControlError) -> Failure:
    return Failure(f"the program does not go on: {error}; a packet that takes {PATIENCE:g} s, or a gibibyte, ends it")
