"""Targets as objects of one interface: what runs, what is refused, what is compiled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inalab.schemes import registry
from inalab.schemes.switchml import SwitchMLScheme
from inalab.testbed import backends
from inalab.testbed.backends.networks import Networks
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import SettingsError, TrialSettings


class Compiling(Networks):
    """Notes what it is to compile."""

    name = "compiling"

    def __init__(self) -> None:
        super().__init__()
        self.compiled: list[tuple[str, dict[str, str]]] = []

    def _compiled(self, program: Path, defines: dict[str, str]) -> Any:
        self.compiled.append((program.name, defines))
        return object()


def trial(**settings: Any) -> Trial:
    return Trial("a", {}, TrialSettings(**settings), 1)


def test_a_network_runs_the_program_of_its_scheme_for_its_integers_and_each_is_compiled_once() -> None:
    made = Compiling()
    made.prepare([trial(k=32), trial(k=64), trial(k=32, loss=0.1), trial(scheme="atp"), trial(scheme="ring", k=64)])
    assert made.compiled == [("switchml.p4", {"K": "32"}), ("switchml.p4", {"K": "64"}), ("atp.p4", {"K": "64"})]
    first = made.target(registry.find("switchml"), 64)
    assert made.target(registry.find("switchml"), 64) is first and len(made.compiled) == 3
    made.prepare([trial(k=64)])  # another run: the program may have changed
    assert len(made.compiled) == 4 and made.target(registry.find("switchml"), 64) is not first


def test_real_bmv2_is_given_no_packets_that_it_would_write_over_its_memory() -> None:
    bmv2 = backends.find("bmv2")
    bmv2.refuse(TrialSettings(k=64))
    bmv2.refuse(TrialSettings(scheme="ring", k=64))
    with pytest.raises(SettingsError, match=r"simple_switch adds at most 512 bytes to a packet.*: set k to 64 or less"):
        bmv2.refuse(TrialSettings(k=256))
    assert (bmv2.largest_k, backends.find("embedded").largest_k) == (64, 256)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("virtuel", "target virtuel is unknown: choose one of embedded, bmv2, virtual, simulated"),
        ("simulated", "runs nothing: choose one of embedded, bmv2"),
    ],
)
def test_a_script_needs_a_target_that_runs_something(name: str, text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        backends.with_switches(name)


def test_a_run_with_an_unknown_target_has_nothing_to_say_of_it() -> None:
    known = backends.of_record({"target": "simulated", "settings": {"costs": "none"}})
    assert known.caveats({"settings": {"costs": "none"}}) and known.doubts("gloo") and not known.doubts("switchml")
    unknown = backends.of_record({"target": "of another time"})
    assert not unknown.caveats({}) and not unknown.doubts("gloo") and not unknown.lacks(KeyError("x"))


class Derived(SwitchMLScheme):
    name = "derived"


class Stating(Derived):
    simulation = SwitchMLScheme.simulation


@pytest.mark.parametrize(("kind", "how"), [(SwitchMLScheme, "POOL"), (Derived, "NONE"), (Stating, "POOL")])
def test_a_derived_scheme_is_simulated_only_where_it_says_so(kind: type[SwitchMLScheme], how: str) -> None:
    assert kind().simulated().name == how
