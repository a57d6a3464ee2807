"""A lab's host on a real interface, in real time, on a host of `inalab p4run`.

python -m inalab.testbed.lab.live FILE CLASS [NAME=VALUE…]

`start` gets the named values. With --tensor LENGTH and --of RANK/WORKERS it gets a tensor, too, and the sum is compared with
that of all workers' tensors.
"""

from __future__ import annotations

import argparse
import ast
import heapq
import random
import select
import socket
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from inalab.testbed.lab.confined_main import imported, made
from inalab.testbed.lab.host import Host
from inalab.testbed.lab.lab import Failure
from inalab.testbed.lab.summing import tensors

INTERFACE = "eth0"
TYPES = range(0x88B5, 0x88B9)  # EtherTypes of the labs
ALL = 3  # ETH_P_ALL
QUIET = 1.0  # seconds without a packet after which a host that has finished ends: until then, others may need it
RECEIVE_BUFFER = 4 << 20  # bytes


class LiveHost:
    """Carries out what a host calls, on an interface. A share of what it sends and receives is lost, by a seeded draw."""

    def __init__(self, host: Host, interface: str = INTERFACE, loss: float = 0.0, seed: int = 1) -> None:
        self.host, self.loss, self.draw = host, loss, random.Random(seed)
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        self.socket.bind((interface, ALL))
        self.sent = self.received = self.lost = 0
        self.finished, self.result = False, None
        self.heard = self.begun = 0.0
        self._timers: dict[str, float] = {}
        self._queue: list[tuple[float, str]] = []

    def run(self, seconds: float, **given: Any) -> None:
        """Start, and go on until the host has finished and no packet is sent any more. Failure after so many seconds."""
        self.heard = self.begun = time.monotonic()
        deadline = self.begun + seconds
        self._call("start", **given)
        while not self.finished or time.monotonic() < self.heard + QUIET:
            now = time.monotonic()
            if now > deadline:
                raise Failure(f"it has not finished after {seconds:g} s")
            wait = QUIET / 4
            if self._queue:
                wait = max(0.0, min(wait, self._queue[0][0] - now))
            if select.select([self.socket], [], [], wait)[0]:
                self._arrive()
            self._expire()

    def _arrive(self) -> None:
        data, (_, _, direction, *_) = self.socket.recvfrom(2048)
        if direction == socket.PACKET_OUTGOING or int.from_bytes(data[12:14], "big") not in TYPES:
            return
        self.heard = time.monotonic()
        if self._loses():
            return
        self.received += 1
        self._call("receive", data)

    def _expire(self) -> None:
        if self._queue and self._queue[0][0] <= time.monotonic():
            when, name = heapq.heappop(self._queue)
            if self._timers.get(name) == when:  # it has been neither cancelled nor set anew
                del self._timers[name]
                self._call("expire", name)

    def _loses(self) -> bool:
        lost = self.draw.random() < self.loss
        self.lost += lost
        return lost

    def _call(self, method: str, *arguments: Any, **given: Any) -> None:
        self.host.now = (time.monotonic() - self.begun) * 1e6
        getattr(self.host, method)(*arguments, **given)
        calls, self.host._calls = self.host._calls, []
        for kind, value in calls:
            if kind == "send":
                self.sent += 1
                if not self._loses():
                    self.socket.send(value)
            elif kind == "timer":
                wait, name = value
                self._timers[name] = time.monotonic() + wait / 1e6
                heapq.heappush(self._queue, (self._timers[name], name))
            elif kind == "cancel":
                self._timers.pop(value, None)
            elif not self.finished:
                self.finished, self.result = True, value


def host_of(file: Path, name: str) -> Host:
    """A host of the class that a file defines. Failure if it does not."""
    if not file.is_file():
        raise Failure(f"there is no Python file {file}")
    module = imported(file.resolve())
    if not hasattr(module, name):
        raise Failure(f"{file} does not define the class {name}")
    return made(module, name)


def _told(result: Any, parts: list[Any]) -> str:
    """What the result is worth. Failure if it is not the sum of the parts."""
    if not parts:
        return "finished" if result is None else str(result)
    expected = np.sum(parts, axis=0, dtype=parts[0].dtype)
    if not isinstance(result, np.ndarray) or result.shape != expected.shape:
        raise Failure(f"it finishes with {type(result).__name__}, and the sum is an array of {len(expected)} elements")
    wrong = int((result != expected).sum())
    if wrong:
        raise Failure(f"its sum is wrong: {wrong} of {len(expected)} elements differ")
    return f"the sum of {len(expected)} elements is right"


def _parts(length: int | None, of: str, floats: bool) -> tuple[int, list[Any]]:
    """This worker's rank, and the tensors of all."""
    if length is None:
        return 0, []
    rank, _, workers = of.partition("/")
    if not (rank.isdecimal() and workers.isdecimal() and int(rank) < int(workers)):
        raise Failure(f"--of {of} must be RANK/WORKERS, such as 0/4")
    parts: list[Any] = tensors(int(workers), length, seed=1)
    return int(rank), [part.astype("f4") % 1000 for part in parts] if floats else parts


def _value(word: str) -> tuple[str, Any]:
    name, _, value = word.partition("=")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        raise argparse.ArgumentTypeError(f"{word} must be NAME=VALUE, and the value a number") from None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m inalab.testbed.lab.live", description="Run a lab's host on a real interface.")
    parser.add_argument("file", type=Path)
    parser.add_argument("name", metavar="CLASS")
    parser.add_argument("given", metavar="NAME=VALUE", type=_value, nargs="*", help="what start() gets")
    parser.add_argument("--tensor", type=int, metavar="LENGTH", help="elements of the tensor that start() gets")
    parser.add_argument("--of", default="0/1", metavar="RANK/WORKERS", help="which of all tensors it is; default: 0/1")
    parser.add_argument("--floats", action="store_true", help="the tensors are of float32, not int32")
    parser.add_argument("--loss", type=float, default=0.0, help="share of the packets sent and received that are lost")
    parser.add_argument("--after", type=float, default=0.0, help="seconds to wait until the others are there; default: 0")
    parser.add_argument("--seconds", type=float, default=30.0, help="that it may take; default: 30")
    asked = parser.parse_args()
    try:
        rank, parts = _parts(asked.tensor, asked.of, asked.floats)
        live = LiveHost(host_of(asked.file, asked.name), loss=asked.loss, seed=rank + 1)
        time.sleep(asked.after)
        live.run(asked.seconds, **dict(asked.given), **({"tensor": parts[rank]} if parts else {}))
        print(f"{_told(live.result, parts)}; {live.sent} packets sent, {live.received} received, {live.lost} lost")
    except Failure as failure:
        print(failure, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{INTERFACE}: {error.strerror}: run it on a host of `inalab p4run`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
