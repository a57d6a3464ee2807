"""The student's side: python -m inalab.testbed.lab.confined_main FILE, confined, with the check's socket as standard input.

The file is imported once. Each message asks for a process of its own: a copy of this one, whose socket comes with it. The
copy makes a host, or calls functions, as it is asked; so no host shares memory with another, as on a network.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

from inalab.testbed.lab import messages, system_calls
from inalab.testbed.lab.confinement import GIVEN
from inalab.testbed.lab.host import Host

MOST_PROCESSES = 256


def main() -> None:
    control = socket.socket(fileno=0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the copies
    resource.setrlimit(resource.RLIMIT_NPROC, (MOST_PROCESSES, MOST_PROCESSES))
    system_calls.forbid()
    path = Path(sys.argv[1])
    try:
        module = imported(path)
    except BaseException:
        messages.send(control, {"error": _told(path)})
        return
    messages.send(control, {"names": sorted(name for name in vars(module) if not name.startswith("__"))})
    while True:
        _, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not descriptors:
            return
        if os.fork() == 0:
            control.close()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            _serve(socket.socket(fileno=descriptors[0]), module, path)
            os._exit(0)
        os.close(descriptors[0])


def imported(path: Path) -> Any:
    """A student's file, as a module; it finds its neighbours and what the labs give, after all that is installed."""
    sys.path += [str(path.parent), str(GIVEN)]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def made(module: Any, name: str) -> Host:
    """A host of the class that a module defines."""
    host: Host = getattr(module, name)()
    Host.__init__(host)  # its own may have forgotten it
    return host


def _serve(connection: socket.socket, module: Any, path: Path) -> None:
    """Do what each message asks for, until the check closes the socket."""
    host: Host | None = None
    while True:
        try:
            asked = messages.receive(connection)
        except messages.ClosedError:
            return
        try:
            if asked["do"] == "call":
                answer: dict[str, Any] = {"result": getattr(module, asked["name"])(*asked["arguments"], **asked["named"])}
            else:
                if asked["do"] == "make":
                    host = made(module, asked["name"])
                else:
                    assert host is not None
                    host.now = asked["now"]
                    getattr(host, asked["do"])(*asked["arguments"], **asked["named"])
                answer = {"calls": host._calls}
                host._calls = []
            _flush()
            messages.send(connection, answer)
        except messages.ClosedError:
            return
        except BaseException:
            _flush()
            messages.send(connection, {"error": _told(path)})
            return


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass


def _told(path: Path) -> str:
    """The traceback that is being handled, from the student's first line on."""
    kind, error, trace = sys.exc_info()
    assert kind is not None
    frames = [f for f in traceback.extract_tb(trace) if f.filename.startswith(str(path.parent))]
    for frame in frames:
        frame.filename = os.path.relpath(frame.filename, path.parent)
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames)] if frames else []
    return "".join(lines + traceback.format_exception_only(kind, error)).strip()


if __name__ == "__main__":
    main()
