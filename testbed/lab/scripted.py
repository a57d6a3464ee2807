"""Hosts of a lab's network that the check plays itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class Source:
    """Sends packets, each at its time in microseconds, and keeps what arrives."""

    def __init__(self, packets: Sequence[tuple[float, bytes]] = (), awaited: int = 0) -> None:
        """It has finished once it has sent all `packets` and has received as many as are `awaited`."""
        self.packets, self.awaited = list(packets), awaited
        self.sent = 0
        self.arrived: list[tuple[float, bytes]] = []

    def start(self, now: float, **given: Any) -> list[tuple[str, Any]]:
        timers: list[tuple[str, Any]] = [("timer", (time, str(n))) for n, (time, _) in enumerate(self.packets)]
        return timers + self._end()

    def receive(self, now: float, packet: bytes) -> list[tuple[str, Any]]:
        self.arrived.append((now, packet))
        return self._end()

    def expire(self, now: float, timer: str) -> list[tuple[str, Any]]:
        self.sent += 1
        return [("send", self.packets[int(timer)][1]), *self._end()]

    def _end(self) -> list[tuple[str, Any]]:
        done = self.sent == len(self.packets) and len(self.arrived) >= self.awaited
        return [("finish", None)] if done else []


class Answering:
    """Answers each packet by those that a function makes of it; it has nothing to finish."""

    def __init__(self, answer: Callable[[float, bytes], list[bytes]]) -> None:
        self.answer = answer

    def start(self, now: float, **given: Any) -> list[tuple[str, Any]]:
        return [("finish", None)]

    def receive(self, now: float, packet: bytes) -> list[tuple[str, Any]]:
        return [("send", data) for data in self.answer(now, packet)]

    def expire(self, now: float, timer: str) -> list[tuple[str, Any]]:
        return []
