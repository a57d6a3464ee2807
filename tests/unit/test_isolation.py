"""How a process ended, in words."""

from __future__ import annotations

import pytest

from topologies.isolation import ending


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (3, "ended with exit code 3"), (0, "ended with exit code 0"), (128, "ended with exit code 128"),
        (255, "ended with exit code 255"), (-9, "was killed by SIGKILL"), (137, "was killed by SIGKILL"),
        (139, "was killed by SIGSEGV"), (-15, "was killed by SIGTERM"), (-40, "was killed by signal 40"),
    ],
)  # fmt: skip
def test_every_signal_has_its_name(code: int, words: str) -> None:
    assert ending(code) == words
