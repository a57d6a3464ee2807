"""What `inalab watch` believes of what it finds in other mount namespaces: little, and never code."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from inalab.hosts import gauge
from inalab.hosts.gauge import NUMBER
from inalab.schemes import registry
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.trial import discovery
from inalab.testbed.trial.discovery import BEACON, RunningTrial, UnknownSchemeError, trials
from inalab.topologies import isolation

GOOD: dict[str, Any] = {"settings": {"workers": 2}, "sockets": "/run/inalab", "scheme_files": []}


@contextmanager
def world(leave: Callable[[], Any], user: int | None = None) -> Iterator[int]:
    """A process of another mount namespace, with what `leave` leaves there; its pid, once it is there."""
    ours, theirs = os.pipe()

    def body() -> int:
        leave()
        if user is not None:
            os.setresuid(user, user, user)
        os.write(theirs, b"x")
        time.sleep(60)
        return 0

    pid = isolation.start(body)
    try:
        os.read(ours, 1)
        yield pid
    finally:
        for inside in psutil.Process(pid).children(recursive=True):  # who has become somebody else does not die with its parent
            inside.kill()
        os.waitpid(pid, 0)
        os.close(ours)
        os.close(theirs)


def found(pid: int) -> list[RunningTrial]:
    """The trials of that world."""
    return list(trials(psutil.Process(pid).children(recursive=True)))


def left(content: Any) -> Callable[[], Any]:
    return lambda: BEACON.write_text(content if isinstance(content, str) else json.dumps(content))


def fifo() -> None:
    os.mkfifo(BEACON)


def link() -> None:
    Path("/run/other").write_text(json.dumps(GOOD))
    BEACON.symlink_to("/run/other")


def device() -> None:
    BEACON.symlink_to("/dev/zero")


def test_a_trial_of_ours_is_found_with_its_settings() -> None:
    def leave() -> None:
        discovery.announce(TrialSettings(workers=2, loss=0.01))
        (gauge.FOLDER / "window").write_bytes(NUMBER.pack(3.5))

    with world(leave) as pid:
        (trial,) = found(pid)
        assert (trial.settings.workers, trial.settings.loss, trial.shown()) == (2, 0.01, {"window": 3.5})


def test_a_gauge_that_is_no_file_is_not_waited_for() -> None:
    def leave() -> None:
        discovery.announce(TrialSettings())
        os.mkfifo(gauge.FOLDER / "window")

    with world(leave) as pid:
        (trial,) = found(pid)
        assert trial.shown() == {}


@pytest.mark.parametrize(
    "leave",
    [
        fifo, link, device, BEACON.mkdir, left(""), left("[" * 500_000), left(" " * (discovery.MOST_BYTES + 1)), left([]), left({}),
        left(GOOD | {"sockets": 5}), left(GOOD | {"sockets": "/run/../../x"}), left(GOOD | {"scheme_files": [5]}),
        left(GOOD | {"scheme_files": 5}), left(GOOD | {"settings": {"scheme": "/tmp/mine.py"}}), left(GOOD | {"settings": {"jobs": 5}}),
    ],
)  # fmt: skip
def test_what_is_no_beacon_is_passed_over_at_once(leave: Callable[[], Any]) -> None:
    with world(leave) as pid:
        assert found(pid) == []


def test_no_code_that_a_beacon_names_is_run(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(f"open({str(tmp_path / 'run')!r}, 'w')\n")
    named = GOOD | {"scheme_files": [str(mine)], "settings": {"scheme": "mine"}}
    with world(left(named)) as pid, pytest.raises(UnknownSchemeError, match=r"inalab watch --scheme '.*mine\.py' shows it"):
        found(pid)
    assert not (tmp_path / "run").exists()


def test_a_scheme_of_a_file_that_was_named_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "added", lambda: ["/tmp/mine.py"])
    with world(left(GOOD | {"scheme_files": ["/tmp/mine.py"]})) as pid:
        assert [trial.settings.workers for trial in found(pid)] == [2]


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can become somebody else")
def test_other_users_processes_are_not_looked_at() -> None:
    with world(left(GOOD), user=65534) as pid:
        theirs = [p for p in psutil.Process(pid).children(recursive=True) if p.uids().real == 65534]
        assert theirs and not list(trials(theirs))
