"""Disorder on links: what the switch does to packets, that no scheme's sum changes for it, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

from inalab.schemes import registry
from inalab.switches.disorder import Disorder, counted, set_disorder
from inalab.switches.embedded.build import build
from inalab.switches.embedded.offline import LoadedSwitch, OfflineSwitch
from inalab.switches.loss import mix, threshold
from inalab.testbed import backends
from inalab.testbed.plan.settings import SettingsError, TrialSettings, make_settings
from tests.unit.test_runtime import QUEUES, probe
from tests.unit.test_virtual import virtual

GAP_NS = 100_000  # between two packets
SUMMING = [name for name in registry.names() if (s := registry.find(name)).driven and s.sums and not s.multi_gpu]


def told(direction: int, port: int, disorder: Disorder) -> str:
    return set_disorder(port, disorder, 5, 3)[direction]


def expected(disorder: Disorder, seed: int, packets: int) -> list[int]:
    """The order in which packets come that leave GAP_NS apart."""
    come, last = [], 0
    for n in range(packets):
        sent = n * GAP_NS
        draw, due = mix(seed ^ mix(n)), sent
        if disorder.jitter:
            last = due = max(last, due + (mix(draw ^ 0x5BD1E995) * round(disorder.jitter * 1e6) >> 32))
        if mix(draw ^ 0x1B873593) < threshold(disorder.duplicate):
            come.append((due + round(disorder.hold * 1e6), len(come), n))
        held = draw < threshold(disorder.reorder)
        come.append((due + held * round(disorder.hold * 1e6), len(come), n))
    return [n for _, _, n in sorted(come)]


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize(
    "disorder",
    [
        Disorder(0.2, 0.0, 0.55),
        Disorder(0.0, 0.3, 0.25),
        Disorder(0.0, 0.0, 0.0, 0.45),
        Disorder(0.3, 0.3, 0.77, 0.3),
        Disorder(1.0, 1.0, 1.0),
    ],
)
def test_packets_come_in_the_order_that_the_seed_says(direction: int, disorder: Disorder) -> None:
    switch = LoadedSwitch(build(QUEUES, library=True))
    command = told(direction, direction, disorder)  # a packet goes in at port 0, and out at port 1
    switch.command(command)
    found: list[int] = []
    for n in range(300):
        sent, _ = switch.at(n * GAP_NS, (0, probe(0) + n.to_bytes(2, "big")))
        found += [int.from_bytes(frame[-2:], "big") for _, frame in sent]
    due: int | None = 0
    while due is not None:
        sent, due = switch.at(max(due, 300 * GAP_NS))
        found += [int.from_bytes(frame[-2:], "big") for _, frame in sent]
    assert found == expected(disorder, int(command.split()[3]), 300)
    held, doubled = counted(switch)
    assert (held > 0, doubled > 0) == (disorder.reorder > 0, disorder.duplicate > 0)
    assert len(found) == 300 + doubled


def test_copies_that_come_at_once_come_behind_a_delay() -> None:
    switch = LoadedSwitch(build(QUEUES, library=True))
    switch.command("set_queue_delay 1000 1")
    switch.command(told(1, 1, Disorder(0.0, 1.0, 0.0)))
    for second in range(1, 4):
        _, due = switch.at(second * 10**9, (0, probe(0)))
        assert due == second * 10**9 + 10**6
        sent, due = switch.at(due)
        assert len(sent) == 2 and due is None


def test_the_end_of_a_jitter_overtakes_nothing() -> None:
    switch = LoadedSwitch(build(QUEUES, library=True))
    switch.command(told(1, 1, Disorder(jitter=50.0)))
    found: list[int] = []
    for n in range(100):
        if n == 50:
            switch.command(told(1, 1, Disorder()))
        sent, due = switch.at(n * 10**6, (0, probe(0) + bytes([n])))
        found += [frame[-1] for _, frame in sent]
    while due is not None:
        sent, due = switch.at(due)
        found += [frame[-1] for _, frame in sent]
    assert found == [*range(100)]


def test_what_waits_is_lost_where_the_state_is_reset() -> None:
    with OfflineSwitch(build(QUEUES, sanitize=True)) as switch:
        switch.command(told(1, 1, Disorder(1.0, 1.0, 10_000.0)))
        assert switch.send(0, probe(0)) == []
        assert "waiting=2" in switch.command("show_disorder")
        switch.command("reset_state")
        assert len(switch.send(0, probe(0))) == 1
        assert switch.command("show_disorder") == "waiting=0\n"
        switch.command(told(1, 1, Disorder(1.0, 1.0, 10_000.0)))
        switch.send(0, probe(0))
    assert switch.process.returncode == 0


@pytest.mark.parametrize("scheme", SUMMING)
def test_no_sum_depends_on_the_order_of_packets(scheme: str) -> None:
    its: dict[str, Any] = {"scheme": scheme, "racks": 2, "workers": 2, "steps": 3, "workload": "tensor-6000"}
    plain = virtual(**its)["metrics"]
    for disorder in (
        {"reorder": 0.2, "duplicate": 0.2, "hold": 8.0},
        {"jitter": 4.0, "duplicate": 0.5},
        {"reorder": 0.1, "loss": 0.02},
    ):
        found = virtual(**its, **disorder)
        assert found["valid"], found["problems"]
        assert found["metrics"]["model_digest"] == plain["model_digest"]
        assert ("held_back" in found["metrics"], "doubled" in found["metrics"]) == ("reorder" in disorder, "duplicate" in disorder)


def test_atp_learns_that_packets_do_not_keep_their_order() -> None:
    """Without that it asks for one in three, and each answer is a whole result: its sums then take 2.5 times as long."""
    its: dict[str, Any] = {"scheme": "atp", "topology": "leaf-spine", "spines": 4, "racks": 3, "steps": 3, "costs": "none"}
    found = virtual(**its, workload="tensor-30000", routing="spray", skew=0.2)["metrics"]
    alike = virtual(**its, workload="tensor-30000", routing="spray")["metrics"]
    assert found["queries"] < found["packets_sent"] / 10
    assert found["tat_median"] < 1.15 * alike["tat_median"]


def test_a_link_is_disturbed_for_a_while() -> None:
    its = {"steps": 8, "faults": "reorder h0 1 at 0.1 for 0.1; duplicate any worker 0.5 at 0.1 for 0.1"}
    with pytest.raises(SettingsError, match="there is no worker to duplicate"):
        make_settings(TrialSettings, its).check()
    found = virtual(**its | {"faults": "reorder h0 1 at 0.1 for 0.1; duplicate h0-tor0 0.5 at 0.15 for 0.1; jitter h1 2 at 0"})[
        "metrics"
    ]
    assert found["held_back"] > 0 and found["doubled"] > 0
    assert [fault["what"] for fault in found["faults"]] == ["jitter", "reorder", "duplicate"]
    assert all("ended" in fault for fault in found["faults"][1:])


@pytest.mark.parametrize(
    ("changes", "wording"),
    [
        ({"reorder": 1.5}, "setting reorder is 1.5"),
        ({"jitter": -1}, "setting jitter is"),
        ({"reorder": 0.1, "faults": "duplicate h0 0.1 at 1"}, "disorder and faults that disturb links cannot be set together"),
        ({"faults": "reorder h0 2 at 1"}, "shares of packets are from 0 to 1"),
        ({"faults": "jitter h0 at 1"}, "jitter takes a number behind h0"),
    ],
)
def test_disorder_that_cannot_be_is_one_sentence(changes: dict[str, Any], wording: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(wording)) as caught:
        make_settings(TrialSettings, changes).check()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("target", "wording"), [("simulated", "reorder is not simulated"), ("bmv2", "simple_switch cannot reorder or double packets")]
)
def test_other_targets_refuse_it(target: str, wording: str) -> None:
    with pytest.raises(SettingsError, match=wording):
        backends.find(target).refuse(make_settings(TrialSettings, {"reorder": 0.1, "costs": "embedded"}))
