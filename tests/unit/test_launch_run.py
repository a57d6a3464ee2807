"""A script under way on all hosts, without a network: what is printed of its output, and what a worker's end leads to."""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inalab.hosts.launch_files import FOLDER, LaunchFiles
from inalab.hosts.tally import Tally
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.trial import launch
from inalab.testbed.trial.launch import GRACE, LAST_WORDS, MISSED, _Launch
from tests.fake_network import Clock

End = tuple[float, int]  # seconds, and the exit code


class Hosts:
    """Stands for hosts in virtual time: what their workers print, and when and with which code they end, by rank.

    Where there is no time, a worker waits for others until it learns of a reason to give up.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, notes: LaunchFiles, prints: list[bytes], ends: list[End | None]) -> None:
        self.settings = TrialSettings(racks=1, workers=len(prints))
        self.plan, self.controls = self.settings.plan(), {}  # type: ignore[var-annotated] # without switches
        self.notes, self.prints, self.ends, self.clock = notes, prints, dict(enumerate(ends)), Clock()
        self.begun, self.trouble, self.given = self.clock.now, "", {}  # type: ignore[var-annotated]
        self.killed: list[tuple[int, float]] = []
        self.lost: list[str] = []
        hosts = self

        class Outputs(selectors.DefaultSelector):
            def select(self, timeout: float | None = None) -> Any:
                hosts.clock.sleep(timeout or 0)
                assert hosts.passed() < 100
                return super().select(0)

        monkeypatch.setattr(launch.selectors, "DefaultSelector", Outputs)
        monkeypatch.setattr(launch.os, "kill", self.kill)
        for name, instead in (
            ("time", self.clock), ("ended", self.ended),
        ):  # fmt: skip
            monkeypatch.setattr(launch, name, instead)

    def passed(self) -> float:
        return self.clock.now - self.begun

    def spawn(self, rank: int, work: Any) -> int:
        writer, self.given[rank], *_ = work.args
        os.write(writer, self.prints[rank])
        return rank

    def kill(self, rank: int, how: int) -> None:
        self.killed.append((rank, self.passed()))
        self.ends[rank] = (0.0, -how)

    def ended(self, rank: int) -> int | None:
        if (end := self.ends[rank]) is None:
            return 1 if self.notes.reason() else None
        return end[1] if self.passed() >= end[0] else None

    def losses(self) -> list[SimpleNamespace]:
        """Servers that have died, each told once."""
        told, self.lost = self.lost, []
        return [SimpleNamespace(text=text) for text in told]

    def run(self) -> tuple[int, _Launch]:
        watch = SimpleNamespace(trouble=lambda: self.trouble, losses=self.losses)
        jobs = self.settings.admitted(self.plan)
        deployment: Any = SimpleNamespace(network=self, spawn_servers=dict, watch=lambda servers, elastic: watch, admitted=jobs)
        launched = _Launch(deployment, self.settings, 1, self.notes, False)
        return launched.run(["train.py"], lambda: None), launched


Make = Callable[..., Hosts]


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    return partial(Hosts, monkeypatch, LaunchFiles(tmp_path))


def test_lines_come_whole_with_their_ranks_the_last_one_too(hosts: Make, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    long = b"x" * 40_000
    made = hosts([b"one\n\ntwo", b"three\n" + long + b"\n", b""], [(0, 0)] * 3)
    assert made.run()[0] == 0
    out, err = capsysbinary.readouterr()
    assert sorted(out.split(b"\n")) == sorted([b"[0] one", b"[0] ", b"[0] two", b"[1] three", b"[1] " + long, b""])
    assert err == b""
    assert [made.given[rank]["RANK"] for rank in range(3)] == ["0", "1", "2"]
    assert {given[FOLDER] for given in made.given.values()} == {str(made.notes.folder)}


def test_a_line_that_comes_in_parts_is_printed_once_it_is_whole(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    reader, writer = os.pipe()
    state, printed = [3, b""], []
    for part in (b"on", b"e", b"\ntw", b"o\nthree"):
        os.write(writer, part)
        assert launch.forward(reader, state)
        printed.append(capsysbinary.readouterr().out)
    os.close(writer)
    assert not launch.forward(reader, state)
    assert [*printed, capsysbinary.readouterr().out] == [b"", b"", b"[3] one\n", b"[3] two\n", b"[3] three\n"]
    os.close(reader)


@pytest.mark.parametrize(
    ("ends", "code", "sentences"),
    [
        ([(0, 3), (0, 4)], 3, "worker 0 ended with exit code 3"),
        ([(0.5, 3), (0.2, 4)], 4, "worker 1 ended with exit code 4"),
        ([(0, 0), (0.2, -9)], 137, "worker 1 was killed by SIGKILL"),
    ],
)
def test_the_first_failure_is_told_and_its_exit_code_is_the_launchers(
    hosts: Make, capsys: pytest.CaptureFixture[str], ends: list[tuple[float, int]], code: int, sentences: str
) -> None:
    made = hosts([b""] * 2, ends)
    assert made.run()[0] == code
    assert capsys.readouterr().err == f"inalab: {sentences}\n"
    assert made.notes.reason() == sentences


def test_survivors_of_a_failure_have_some_time_and_are_killed_once(hosts: Make, capsys: pytest.CaptureFixture[str]) -> None:
    made = hosts([b""] * 3, [(1, 5), (999, 0), (999, 0)])
    assert made.run()[0] == 5
    assert [rank for rank, _ in made.killed] == [1, 2]
    assert [when for _, when in made.killed] == pytest.approx([1 + GRACE] * 2, abs=0.3)
    assert capsys.readouterr().err.splitlines() == [
        "inalab: worker 0 ended with exit code 5",
        f"inalab: workers 1, 2 got SIGKILL, {GRACE:g} s after this failure: worker 0 ended with exit code 5",
    ]


def test_who_waits_for_a_worker_that_has_ended_in_order_learns_of_it(hosts: Make) -> None:
    """And which one that was; but not at once, because all may be about to end."""
    made = hosts([b""] * 3, [(1, 0), (3, 0), None])
    assert made.run()[0] == 1
    assert made.notes.reason() == "worker 0 has ended"
    assert made.passed() == pytest.approx(1 + MISSED, abs=0.5)
    soon = hosts([b""] * 2, [(1, 0), (4, 0)])
    (soon.notes.folder / "reason").unlink()
    assert soon.run()[0] == 0 and soon.notes.reason() is None


def test_scripts_go_on_with_the_replica_of_a_server_that_has_died(hosts: Make, capsys: pytest.CaptureFixture[str]) -> None:
    """A loss that the scheme cannot bear is trouble; of others the launcher tells."""
    made = hosts([b""] * 2, [(1, 0), (1, 0)])
    made.lost = ["server 0 (host s0) was killed by SIGKILL"]
    assert made.run()[0] == 0
    assert capsys.readouterr().err == "inalab: server 0 (host s0) was killed by SIGKILL: the scripts go on\n"


def test_trouble_in_the_network_is_a_failure(hosts: Make, capsys: pytest.CaptureFixture[str]) -> None:
    made = hosts([b""] * 2, [None, None])
    made.trouble = "switch tor0 was killed by SIGKILL"
    assert made.run()[0] == 1
    assert capsys.readouterr().err == "inalab: switch tor0 was killed by SIGKILL\n"
    assert made.notes.reason() == "switch tor0 was killed by SIGKILL"


def test_what_fails_in_the_same_way_on_several_workers_is_printed_once(hosts: Make, capfd: pytest.CaptureFixture[str]) -> None:
    made = hosts([b""] * 4, [(0.5, 1)] * 4)
    for rank, text in ((1, "a\nb"), (2, "c"), (3, "a\nb"), (0, "a\nb")):
        made.notes.fail(rank, text)
    made.run()
    out, err = capfd.readouterr()
    assert out == "[0] a\n[0] b\n[2] c\n"
    assert err == "inalab: worker 0 ended with exit code 1\ninalab: workers 1, 3 failed in the same way as worker 0\n"


def test_output_that_something_left_behind_holds_open_is_not_waited_for(hosts: Make) -> None:
    made = hosts([b""] * 2, [(2, 0), (2, 0)])
    real, held = made.spawn, []

    def spawn(rank: int, work: Any) -> int:
        held.append(os.dup(work.args[0]))
        return real(rank, work)

    made.spawn = spawn  # type: ignore[method-assign]
    assert made.run()[0] == 0
    assert made.passed() == pytest.approx(2 + LAST_WORDS, abs=0.3)
    for writer in held:
        os.close(writer)


def test_workers_that_came_to_their_end_have_left_what_they_used(hosts: Make) -> None:
    made = hosts([b""] * 3, [(0, 0)] * 3)
    made.notes.leave_tally(0, '{"sums": 3}')
    made.notes.leave_tally(2, '{"sums": 5, "sent": 1}')
    assert made.run()[1].tallies() == {0: Tally(sums=3), 2: Tally(sums=5, sent=1)}
