"""Schedules of faults: how they are written, what is refused, and what is drawn."""

from __future__ import annotations

import pytest

from inalab.hosts.training.stragglers import Slowing, Slowness
from inalab.testbed.plan.faults import Fault, drawn, faults_of
from inalab.testbed.plan.settings import SettingsError, TrialSettings, make_settings
from inalab.topologies.plan import NetworkPlan
from inalab.topologies.racks import Racks


@pytest.mark.parametrize(
    "text",
    [
        "die h3 at 2", "die any worker at 1..3", "hang s0 at 0.5 for 2", "restart tor0 in step 10 for 0.25", "slow h2 4 in step 3 for 2",
        "down h0-tor0 at 1 for 0.05", "loss h0 0.1 at 1", "rate tor1 5 at 1 for 2", "cut h1 at 1 for 10",
    ],
)  # fmt: skip
def test_a_fault_is_written_as_it_is_read(text: str) -> None:
    fault = Fault.model_validate(text)
    assert str(fault) == text and Fault.model_validate(str(fault)) == fault
    assert Fault(**fault.model_dump()) == fault


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("die h3", "is no fault: write one as"),
        ("die h3 soon", "is no fault: write one as"),
        ("explode h3 at 1", "explode is no fault: choose one of die, hang"),
        ("loss h3 at 1", "loss takes a number behind h3"),
        ("die h3 5 at 1", "die has no number behind h3"),
        ("loss h3 1.5 at 1", "loss 1.5 is out of range"),
        ("slow h3 0.5 at 1", "slow 0.5 is out of range"),
        ("rate h3 0.01 at 1", "rate 0.01 is out of range"),
        ("die h3 at 3..1", "between a first and a last one"),
        ("die h3 at 1 for 2", "die does not end: leave `for` out"),
        ("cut h3 at 1", "cut h3 needs its length"),
        ("die h3 in step 0", "greater than or equal to 1"),
    ],
)
def test_what_is_no_fault_is_one_sentence(text: str, why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        make_settings(TrialSettings, {"faults": text})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("die h8 at 1", "h8 is not one of h0, h1"),
        ("down h0-h1 at 1", "h0-h1 is not one of h0-tor0, h0"),
        ("down tor9 at 1", "tor9 is not one of"),
        ("hang tor0 at 1", "tor0 is not one of h0"),
        ("die any server at 1", "there is no server to die"),
        ("hang any switch at 1", "there is no switch to hang"),
        ("die tor0 at 1", "fault `die tor0 at 1` ends the job: set elastic=yes"),
        ("cut h0 at 1 for 5", "ends the job: set elastic=yes"),
    ],
)
def test_a_fault_of_what_is_not_there_is_one_sentence(text: str, why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        make_settings(TrialSettings, {"faults": text}).check()


def test_a_schedule_is_a_list_and_a_text_and_comes_back_from_a_record() -> None:
    made = TrialSettings(faults="die h3 at 2;  restart h3 at 4\n down h0 at 1 for 0.5;")
    assert [str(fault) for fault in made.faults] == ["die h3 at 2", "restart h3 at 4", "down h0 at 1 for 0.5"]
    assert made.model_dump()["faults"] == [str(fault) for fault in made.faults]
    assert TrialSettings(**made.model_dump()) == made and made.changed(steps=3).faults == made.faults
    assert faults_of("") == []


def test_what_is_random_is_drawn_from_the_seed() -> None:
    plan = NetworkPlan(Racks(2, 4))
    faults = [Fault.model_validate(text) for text in ("die any worker at 1..3", "die any worker at 1..3", "down tor1 at 1")]
    first = drawn(faults, plan, 1)
    assert drawn(faults, plan, 1) == first and drawn(faults, plan, 2) != first
    assert first[0].at != first[1].at and all(1 <= (fault.at or 0) <= 3 and fault.until is None for fault in first[:2])
    assert {drawn(faults, plan, seed)[0].whom for seed in range(60)} == {host.name for host in plan.hosts}
    assert first[2].whom == "tor1-root"


def test_a_worker_is_slow_from_then_on_for_so_long() -> None:
    timed = Slowness([Slowing(1, 4.0, 2.0, None, 1.0), Slowing(0, 9.0, 0.0, None)], 1)
    assert [timed.factor(step, now) for step, now in ((0, 1.9), (1, 2.0), (2, 2.9), (3, 3.0))] == [1.0, 4.0, 4.0, 1.0]
    stepped = Slowness([Slowing(1, 4.0, None, 3, 1.0)], 1)
    assert [stepped.factor(step, now) for step, now in ((1, 1.0), (2, 2.0), (3, 2.5), (4, 3.0))] == [1.0, 4.0, 4.0, 1.0]
