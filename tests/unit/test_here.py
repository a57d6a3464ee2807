"""Campaigns' trials on this machine: what they report, how they end, and that none goes on when it is stopped."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from inalab.hosts.messages import Hello
from inalab.testbed import backends
from inalab.testbed.backends.backend import Backend
from inalab.testbed.campaign import machine
from inalab.testbed.campaign.here import Here
from inalab.testbed.campaign.machines import Ended, Event, Heard
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.trial.apart import Apart
from inalab.testbed.trial.errors import TrialError
from inalab.topologies import isolation
from tests.unit.test_campaign_trials import FINGERPRINT, OWN_SCHEME, own_scheme, task, trial

__all__ = ["own_scheme"]  # a fixture


class Made(Backend):
    """A target whose trials return their seed; one with loss fails."""

    def start(self, settings: TrialSettings, seed: int, capture: Any = None) -> Apart:
        if settings.loss == 0.5:
            raise TrialError("it did not start")

        def work(sender: Any) -> dict[str, Any]:
            sender.send(Hello(0, seed, 1, ""))
            if settings.loss:
                raise TrialError("worker 1 died")
            return {"seed": seed}

        return Apart(isolation.fork, work)


def events_of(here: Here) -> list[Event]:
    found: list[Event] = []
    while here.running or not found:
        found += here.news(5.0)
    return found


def test_this_machine_tells_what_trials_report_and_how_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "fingerprint", lambda: FINGERPRINT)
    monkeypatch.setattr(backends, "find", lambda name: Made())
    here = Here(["embedded"])
    assert here.slots() == ["here"] and here.fingerprint("here") == FINGERPRINT and here.news(0.0) == []
    for seed in (1, 2):
        here.start("here", task(trial(seed=seed)))
        assert events_of(here) == [Heard("here", Hello(0, seed, 1, "")), Ended("here", {"seed": seed})]
        assert here.news(0.0) == []
    here.start("here", task(trial(loss=0.1)))
    assert events_of(here)[-1] == Ended("here", failure="worker 1 died")
    here.start("here", task(trial(loss=0.5)))
    assert here.news(0.0) == [Ended("here", failure="it did not start")]
    here.stop()


def test_trials_that_measure_no_time_have_all_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2})
    assert Here(["virtual", "simulated"]).slots() == ["here-0", "here-1", "here-2"]
    assert Here(["virtual", "embedded"]).slots() == ["here"]


def test_this_machine_runs_no_trial_whose_files_have_changed(own_scheme: Path) -> None:
    here, planned = Here(["simulated"]), task(trial(scheme="mine"), "simulated")
    own_scheme.write_text(OWN_SCHEME + "# faster")
    here.start("here-0", planned)
    wording = f"{own_scheme} is another file here than when the campaign was planned"
    assert here.news(0.0) == [Ended("here-0", failure=wording)]


def test_trials_under_way_end_with_who_runs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(Backend):
        def start(self, settings: TrialSettings, seed: int, capture: Any = None) -> Apart:
            return Apart(isolation.fork, lambda sender: signal.pause())  # type: ignore[arg-type, return-value]

    monkeypatch.setattr(backends, "find", lambda name: Endless())
    here = Here(["embedded"])
    here.start("here", task(trial()))
    pid = here.running["here"]._pid
    here.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
