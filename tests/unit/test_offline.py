"""The embedded switch behind pipes, where its program is somebody else's and keeps to nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from inalab.switches.control import CommandError, ControlError
from inalab.switches.embedded.build import build
from inalab.switches.embedded.offline import COMMAND, END, HEAD, PART, REFUSAL, OfflineSwitch

END_OF_RESULT = HEAD.pack(END, 0)


@contextmanager
def other(code: str, patience: float | None = None, most: int | None = None) -> Iterator[OfflineSwitch]:
    """A program in Python in place of a switch."""
    imports = "import os, sys, time\n"
    switch = OfflineSwitch(Path("-"), under=[sys.executable, "-c", imports + code], patience=patience, most=most)
    try:
        yield switch
    finally:
        switch.process.kill()
        switch.close()


def test_a_switch_that_answers_at_length_is_ended() -> None:
    with (
        other(f"while True: os.write(1, {HEAD.pack(1, 4) + b'more'!r})", 20.0, most=1 << 20) as switch,
        pytest.raises(ControlError, match="its answer has more than 1048576 bytes"),
    ):
        switch.send(0, bytes(60))
    assert switch.process.returncode < 0


def test_a_switch_that_announces_more_than_it_may_say_is_ended() -> None:
    with (
        other(f"os.write(1, {HEAD.pack(1, 0xFFFFFFFF)!r})\nwhile True: os.write(1, bytes(4096))", most=1 << 20) as switch,
        pytest.raises(ControlError, match="its answer has more than"),
    ):
        switch.send(0, bytes(60))


def test_a_switch_that_answers_what_it_was_not_given_is_ended() -> None:
    with (
        other(f"os.write(1, {2 * END_OF_RESULT!r}); time.sleep(60)") as switch,
        pytest.raises(ControlError, match="it answers what it was not given"),
    ):
        switch.send(0, bytes(60))


def test_a_switch_that_answers_before_it_has_read_is_ended() -> None:
    """Nobody waits for ever to write to it: the pipe is full, and it does not read."""
    with (
        other(f"os.write(1, {END_OF_RESULT!r}); time.sleep(60)") as switch,
        pytest.raises(ControlError, match="it answers what it was not given"),
    ):
        switch.send(0, bytes(64 * PART))


def test_a_switch_that_is_silent_is_ended() -> None:
    with other("time.sleep(60)", patience=0.2) as switch, pytest.raises(ControlError, match=r"it does not answer within 0\.2 s"):
        switch.batch([(0, bytes(64 * PART))] * 2)


def test_a_switch_that_closes_its_output_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inalab.switches.embedded.offline.ENDING", 0.3)
    with other("os.close(1); time.sleep(60)") as switch, pytest.raises(ControlError, match="it has closed its output"):
        switch.send(0, bytes(60))


def test_a_switch_that_ends_says_so() -> None:
    with other("sys.exit(3)") as switch, pytest.raises(ControlError, match="exit code 3"):
        switch.send(0, bytes(60))


def test_what_is_no_text_is_shown_all_the_same() -> None:
    with (
        other(f"os.write(1, {HEAD.pack(REFUSAL, 3) + b'no' + bytes([255]) + END_OF_RESULT!r}); time.sleep(60)") as switch,
        pytest.raises(CommandError, match="no\ufffd"),
    ):
        switch.command("register_read x")


def test_a_batch_may_be_longer_than_pipes_are() -> None:
    with OfflineSwitch(build(Path("tests/programs/tables.p4"))) as switch:
        packets = [(n % 4, bytes([n % 256]) * 200) for n in range(2000)]
        assert switch.batch(packets) == [switch.batch([one])[0] for one in packets]
        (((_, text),),) = switch.batch([(COMMAND, b"show_copies")])
        assert text
