"""Servers for the switches of an exercise, at the ports where its controllers look for them: P4Runtime's, and Thrift's.

They run in the network's namespace, where controllers may run as well. For those that run in another shell of the machine, a relay
listens on the same ports of the machine's own namespace.
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
from typing import Protocol

from inalab.switches.embedded.compiler import check_p4
from inalab.switches.embedded.control import SocketControl
from inalab.switches.sockets import is_alive, packets_path, socket_path
from inalab.switches.target import SwitchError, last_lines
from inalab.topologies.exercise import Exercise, ExerciseError

START_SECONDS = 30.0
CHUNK = 1 << 16


class Servers(Protocol):
    """One for each switch: its port, and the Unix socket at which a relay finds it; str() tells a user where they are."""

    ports: dict[str, int]
    paths: dict[str, Path]

    def start(self) -> None:
        """In the network's namespace: returns once all of them listen. Raises SwitchError."""


def _told(kind: str, ports: dict[str, int]) -> str:
    return f"{kind}: {', '.join(f'{name} at 127.0.0.1:{port}' for name, port in ports.items())}"


class P4RuntimeServers:
    """A process for each switch. `sockets` is a folder that both sides see. Raises ExerciseError without P4Runtime's modules."""

    FIRST_PORT = 50051

    def __init__(self, exercise: Exercise, folder: Path, logs: Path, sockets: Path) -> None:
        self.exercise, self.logs = exercise, logs
        _write_build(exercise, folder / "build")
        self.ports = {name: self.FIRST_PORT + i for i, name in enumerate(exercise.switches)}
        self.paths = {name: sockets / f"{name}.p4runtime" for name in exercise.switches}

    def __str__(self) -> str:
        return _told("P4Runtime", self.ports)

    def start(self) -> None:
        started = {name: self._start(i, name) for i, name in enumerate(self.exercise.switches)}
        end = time.monotonic() + START_SECONDS
        for name, process in started.items():
            while not is_alive(self.paths[name]):
                if process.poll() is not None or time.monotonic() > end:
                    raise SwitchError(f"the P4Runtime server of {name} did not start: {last_lines(self._log(name))}")
                time.sleep(0.05)

    def _log(self, name: str) -> Path:
        return self.logs / f"{name}.p4runtime.log"

    def _start(self, number: int, name: str) -> subprocess.Popen[bytes]:
        switch = self.exercise.switches[name]
        words: list[str | Path] = [name, switch.program, "--device-id", str(number)]
        words += ["--address", f"127.0.0.1:{self.ports[name]}", "--address", f"unix:{self.paths[name]}"]
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


class ThriftServers:
    """Threads of the process that has the prompt. Raises ExerciseError where Thrift is not installed."""

    FIRST_PORT = 9090

    def __init__(self, exercise: Exercise, sockets: Path) -> None:
        try:
            import thrift as _  # noqa: F401 (whether it is there)
        except ImportError:
            raise ExerciseError('Thrift is missing: pip install "inalab[thrift]"') from None
        self.ports = {name: self.FIRST_PORT + i for i, name in enumerate(exercise.switches)}
        self.paths = {name: sockets / f"{name}.thrift" for name in exercise.switches}

    def __str__(self) -> str:
        return _told("Thrift", self.ports)

    def start(self) -> None:
        from inalab.switches.thrift.server import ThriftServer

        for name, port in self.ports.items():
            first = ThriftServer(SocketControl(socket_path(name)), port, path=self.paths[name])  # digests are published beside it
            for server in (first, ThriftServer(SocketControl(socket_path(name)), port, beside=first)):
                server.start()


class Relay:
    """A context manager that takes the servers' ports in the machine's namespace. Raises ExerciseError."""

    def __init__(self, servers: Servers) -> None:
        self.servers = servers
        self.listeners: dict[str, socket.socket] = {}
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def __enter__(self) -> Relay:
        for name, port in self.servers.ports.items():
            listener = self.listeners[name] = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError as error:
                self._close()
                raise ExerciseError(
                    f"port {port} of this machine, where controllers look for a switch, is taken ({error.strerror}): "
                    "end the other network or server"
                ) from None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._close()

    def _close(self) -> None:
        if self.thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join()
        self.leave()

    def leave(self) -> None:
        """Close this process's copies of the ports."""
        for listener in self.listeners.values():
            listener.close()

    def start(self) -> None:
        """Pass on what comes to the ports, from now on, in a thread."""
        self.thread.start()
        for name, listener in self.listeners.items():
            serving = asyncio.start_server(partial(_pass_on, self.servers.paths[name]), sock=listener)
            asyncio.run_coroutine_threadsafe(serving, self.loop).result()


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
        from inalab.switches.p4runtime.p4info import as_text, p4info
    except ImportError as error:
        raise ExerciseError(f'P4Runtime needs {error.name}, which is missing: pip install "inalab[p4runtime]"') from None
    for program in {switch.program for switch in exercise.switches.values()}:
        text = as_text(p4info(check_p4(program)))
        folder.mkdir(exist_ok=True)
        for suffix in (".p4.p4info.txtpb", ".p4.p4info.txt"):
            (folder / f"{program.stem}{suffix}").write_text(text)
        (folder / f"{program.stem}.json").write_text(json.dumps({"program": os.path.relpath(program, folder)}) + "\n")
