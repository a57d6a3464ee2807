"""P4Runtime servers for the switches of an exercise, at the addresses where its controllers look for them.

A server runs beside its switch, in the network's namespace, where controllers may run as well. For those that run in another shell
of the machine, a relay listens on the same ports of the machine's own namespace.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType

from inalab.switches.embedded.compiler import check_p4
from inalab.switches.sockets import is_alive, packets_path
from inalab.switches.target import SwitchError, last_lines
from inalab.topologies.exercise import Exercise, ExerciseError

FIRST_PORT = 50051
START_SECONDS = 30.0
CHUNK = 1 << 16


class Servers:
    """A context manager that takes the ports in the machine's namespace; `start` runs in the network's. Raises ExerciseError.

    `sockets` is an empty folder that both sides see.
    """

    def __init__(self, exercise: Exercise, folder: Path, logs: Path, sockets: Path) -> None:
        self.exercise, self.logs, self.sockets = exercise, logs, sockets
        _write_build(exercise, folder / "build")
        self.listeners: list[socket.socket] = []
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def __str__(self) -> str:
        return ", ".join(f"{name} at 127.0.0.1:{FIRST_PORT + i}" for i, name in enumerate(self.exercise.switches))

    def __enter__(self) -> Servers:
        for i in range(len(self.exercise.switches)):
            listener = socket.socket()
            self.listeners.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", FIRST_PORT + i))
            except OSError as error:
                self._close()
                raise ExerciseError(
                    f"port {FIRST_PORT + i} of this machine, where controllers look for a switch, is taken ({error.strerror}): "
                    "end the other network or server"
                ) from None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._close()

    def _close(self) -> None:
        if self.thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join()
        for listener in self.listeners:
            listener.close()

    # --- in the machine's namespace

    def relay(self) -> None:
        """Pass on what comes to the ports, from now on, in a thread."""
        self.thread.start()
        for name, listener in zip(self.exercise.switches, self.listeners, strict=True):
            serving = asyncio.start_server(partial(_pass_on, self.sockets / name), sock=listener)
            asyncio.run_coroutine_threadsafe(serving, self.loop).result()

    # --- in the network's

    def start(self) -> None:
        """Start a server for each switch, and wait until all of them listen. Raises SwitchError."""
        for listener in self.listeners:
            listener.close()  # this process has a copy
        started = {name: self._start(i, name) for i, name in enumerate(self.exercise.switches)}
        end = time.monotonic() + START_SECONDS
        for name, process in started.items():
            while not is_alive(self.sockets / name):
                if process.poll() is not None or time.monotonic() > end:
                    raise SwitchError(f"the P4Runtime server of {name} did not start: {last_lines(self._log(name))}")
                time.sleep(0.05)

    def _log(self, name: str) -> Path:
        return self.logs / f"{name}.p4runtime.log"

    def _start(self, number: int, name: str) -> subprocess.Popen[bytes]:
        switch = self.exercise.switches[name]
        words: list[str | Path] = [name, switch.program, "--device-id", str(number)]
        words += ["--address", f"127.0.0.1:{FIRST_PORT + number}", "--address", f"unix:{self.sockets / name}"]
        if switch.cpu_port is not None:
            words += ["--packets", packets_path(name)]
        with open(self._log(name), "w") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "inalab.switches.p4runtime", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,  # Ctrl-C at the prompt is not for it
            )


async def _pass_on(path: Path, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        there_reader, there_writer = await asyncio.open_unix_connection(path)
    except OSError:
        writer.close()  # the network is not up yet, or no more
        return
    await asyncio.gather(_copy(reader, there_writer), _copy(there_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    writer.close()


def _write_build(exercise: Exercise, folder: Path) -> None:
    """Write the files that controllers expect of a compiled program: P4Info, and a stand-in for BMv2's JSON."""
    try:
        from google.protobuf import text_format

        from inalab.switches.p4runtime.p4info import p4info
    except ImportError as error:
        raise ExerciseError(f'P4Runtime needs {error.name}, which is missing: pip install "inalab[p4runtime]"') from None
    for program in {switch.program for switch in exercise.switches.values()}:
        text = text_format.MessageToString(p4info(check_p4(program)))
        folder.mkdir(exist_ok=True)
        for suffix in (".p4.p4info.txtpb", ".p4.p4info.txt"):
            (folder / f"{program.stem}{suffix}").write_text(text)
        (folder / f"{program.stem}.json").write_text(json.dumps({"program": os.path.relpath(program, folder)}) + "\n")
