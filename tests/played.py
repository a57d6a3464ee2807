"""Connections whose other ends a test plays: messages come one by one, and what a node sends waits, because nobody takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from inalab.hosts.tcp.connection import Segments


class Played:
    """In the place of a node's Channels (hosts.tcp.channel) to the nodes of these ranks, which a Channel's `put` and `read` serve."""

    def __init__(self, node: Any, ranks: range) -> None:
        self.node, self.of = node, dict.fromkeys(ranks, self)
        self.waiting: list[tuple[int, Any, memoryview]] = []  # to whom, header and body; not copied, as a Channel does not
        self.coming: list[tuple[Any, bytes]] = []
        self.connection = SimpleNamespace(pace=lambda rate: None, segments=lambda: Segments(0, 0))
        self.sent = self.received = 0  # bytes
        self.amid_a_message = False
        node.channels = self

    def __getitem__(self, rank: int) -> Played:
        return self.of[rank]

    def __len__(self) -> int:
        return len(self.of)

    def ready(self, timeout: float | None = None) -> list[tuple[int, int]]:
        """Nothing comes but what the test lets come."""
        return []

    def put(self, rank: int, header: Any, body: bytes | memoryview = b"") -> None:
        self.waiting.append((rank, header, memoryview(body).cast("B")))

    def write(self, rank: int) -> list[Any]:
        """Nothing leaves."""
        return []

    def ignore(self, rank: int) -> None:
        """Nobody watches it anyway."""

    def drop(self, rank: int) -> None:
        del self.of[rank]

    def read(self, room: Callable[[Any], memoryview]) -> Iterator[Any]:
        while self.coming:
            header, body = self.coming.pop()
            into = room(header)
            if body:
                into[:] = body
            yield header

    def say(self, rank: int, header: Any, body: bytes = b"") -> list[tuple[int, Any, bytes]]:
        """A message from a node, with its body's size in the header; what is sent next."""
        before = len(self.waiting)
        self.coming = [(header._replace(size=len(body)), body)]
        self.node._read(rank)
        return self.messages[before:]

    @property
    def messages(self) -> list[tuple[int, Any, bytes]]:
        """To whom, header and body of all that waits, as they would be sent now."""
        return [(rank, header, bytes(body)) for rank, header, body in self.waiting]
