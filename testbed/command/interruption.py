"""Ctrl-C and SIGTERM while trials run: they end the run, and no result is lost in part."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

INTERRUPTED = 130  # the exit code


class Interruption:
    """As a context manager, both signals raise KeyboardInterrupt, except while something is `whole`."""

    def __init__(self) -> None:
        self.requested = False  # also where Python drops the exception: in a hook of fork, in a finalizer
        self._whole = False

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._interrupt) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _interrupt(self, number: int, frame: Any) -> None:
        self.requested = True
        if not self._whole:
            raise KeyboardInterrupt

    @contextmanager
    def whole(self) -> Iterator[None]:
        """What is done meanwhile is done to its end. The caller checks `requested` before it starts another trial."""
        self._whole = True
        try:
            yield
        finally:
            self._whole = False
