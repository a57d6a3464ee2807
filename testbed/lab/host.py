"""A host of a lab's network, which a student writes: a class with `start`, `receive` and `expire`.

    class Worker(Host):
        def start(self, tensor):          # once, with what the lab gives
            self.send(packet)
        def receive(self, packet):        # a packet has arrived
            self.set_timer(1000, "slot 3")
        def expire(self, timer):          # a timer has run down
            self.finish(result)

Time is the network's, in microseconds: between two calls it stands still, however long Python takes.
"""

from __future__ import annotations

from typing import Any


class Host:
    """What a host can do. Calls take effect when the method that makes them returns."""

    def __init__(self) -> None:
        self.now = 0.0  # microseconds since the network began
        self._calls: list[tuple[str, Any]] = []

    def start(self, **given: Any) -> None:
        """The network is up; `given` is what the lab's README says."""

    def receive(self, packet: bytes) -> None:
        """A packet has arrived."""

    def expire(self, timer: str) -> None:
        """The timer of that name has run down."""

    def send(self, packet: bytes) -> None:
        """Send a packet, of at most 1514 bytes, on the host's link; it waits there for those sent before."""
        if not isinstance(packet, (bytes, bytearray, memoryview)):
            raise TypeError(f"send takes bytes, not {type(packet).__name__}")
        self._calls.append(("send", bytes(packet)))

    def set_timer(self, microseconds: float, timer: str = "") -> None:
        """Call `expire` with this name after that time; a timer of the name that runs already is set anew."""
        _check_name(timer)
        self._calls.append(("timer", (float(microseconds), timer)))

    def cancel_timer(self, timer: str = "") -> None:
        """Stop a timer; nothing happens if none of the name runs."""
        _check_name(timer)
        self._calls.append(("cancel", timer))

    def finish(self, result: Any = None) -> None:
        """Hand over the result: a number, text, a numpy array, or a list. The host still receives packets: others may need it."""
        self._calls.append(("finish", result))


def _check_name(timer: str) -> None:
    if not isinstance(timer, str):
        raise TypeError(f"a timer's name is text, such as str({timer!r}), not {type(timer).__name__}")
