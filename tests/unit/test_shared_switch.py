"""Jobs of ATP and of SwitchML on one network, whose switches run one program for both (p4/atp_switchml.p4)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inalab.schemes import atp, switchml
from inalab.schemes.registry import SchemeError, find, running
from inalab.switches.embedded.build import build
from inalab.switches.embedded.offline import OfflineSwitch
from inalab.testbed.plan.settings import SettingsError
from inalab.testbed.simulator import limits
from inalab.testbed.trial.configuration import commands_for
from tests.unit.test_virtual import metrics, settings, virtual

ATP, SWITCHML = {"scheme": "atp"}, {"scheme": "switchml"}
LATER = {"start": 0.1, "steps": 2}


def jobs(*each: dict[str, Any]) -> str:
    return json.dumps(each)


@pytest.mark.parametrize("loss", [0.0, 0.03])
@pytest.mark.parametrize("topology", ["racks", "leaf-spine"])
def test_each_job_has_its_own_model(topology: str, loss: float) -> None:
    """Whoever is beside it, and whatever is lost. ATP's jobs have servers in both racks, and so several multicast groups each."""
    training = {"workload": "digits-mlp", "steps": 3, "workers": 1, "atp.servers": 2, "atp.aggregators": 7, "slots": 4}
    alone = [metrics(**training, **its)["model_digest"] for its in (ATP, SWITCHML)]
    chosen = {**training, "topology": topology, "loss": loss, "jobs": jobs(ATP, SWITCHML, {**SWITCHML, "start": 0.2}, ATP)}
    together = [of_job["model_digest"] for of_job in metrics(**chosen)["jobs"]]
    assert together == [alone[0], alone[1], alone[1], alone[0]]


def test_a_job_that_comes_later_and_goes_leaves_nothing() -> None:
    found = virtual(racks=1, workers=2, jobs=jobs(SWITCHML, ATP | LATER, SWITCHML | LATER), steps=8)
    assert found["valid"], found["problems"]
    (switch,) = found["switches"].values()
    assert switch["aggregators_held"] == 0 and switch["copies_missing"] == 0 and not any(switch["rejected"])


def test_one_program_serves_them_and_alone_they_have_their_own() -> None:
    both = running([atp.SCHEME, switchml.SCHEME, find("ring"), atp.SCHEME])
    assert (
        both.program.name == "atp_switchml.p4" and both.schemes == (atp.SCHEME, switchml.SCHEME) and both.name == "atp and switchml"
    )
    assert running([atp.SCHEME, find("ring")]).program == atp.SCHEME.program
    assert running([find("ring")]).schemes == (switchml.SCHEME,)
    for one, other in (("atp", "esa"), ("atp", "switchml-rdma"), ("switchml", "switchml-machine")):
        with pytest.raises(SchemeError, match=f"^{one} and {other} cannot be on one network: no program of a switch serves both$"):
            running([find(one), find(other)])
    with pytest.raises(SchemeError, match="cannot be on one network"):
        running([find("atp"), find("switchml"), find("switchml-machine")])


def test_no_two_jobs_have_a_multicast_group_in_common() -> None:
    chosen = settings(racks=2, workers=1, jobs=jobs(ATP, SWITCHML, ATP, SWITCHML), **{"atp.servers": 2})
    for commands in commands_for(chosen, chosen.plan(), 1).values():
        groups = [line for line in commands if line.startswith("mc_mgrp_create")]
        assert len(groups) == len(set(groups)) > 4


def test_links_with_packets_of_all_sizes_are_not_paced() -> None:
    """ATP's switches pace by packets, which says nothing of a link that TCP shares."""
    paced = {}
    for name, each in {"alone": (ATP,), "both": (ATP, SWITCHML), "with a ring": (ATP, SWITCHML, {"scheme": "ring"})}.items():
        chosen = settings(racks=1, workers=2, jobs=jobs(*each))
        (commands,) = commands_for(chosen, chosen.plan(), 1).values()
        paced[name] = any(line.startswith("set_queue_rate") for line in commands)
    assert paced == {"alone": False, "both": True, "with a ring": False}


def test_a_switch_shows_the_memory_of_each_job_as_its_scheme_has_it() -> None:
    chosen = settings(racks=1, workers=2, jobs=jobs(SWITCHML, ATP, SWITCHML), slots=4)
    plan, its = chosen.plan(), chosen.running()
    ((name, commands),) = commands_for(chosen, plan, 1).items()
    with OfflineSwitch(build(its.program, {"K": "64"}), ports=12) as switch:
        for command in commands:
            switch.command(command)
        switch.command("register_write bitmap_checker.seen 8 1")  # the second SwitchML job's first cell
        switch.command(f"register_write round.round 8 {1 << 32 | 5}")
        found = its.memory(switch, plan, name, chosen.admitted(plan))
    assert {cells.title: len(cells.taken) for cells in found} == {"job 0, slots": 0, "job 1, aggregators": 0, "job 2, slots": 1}


def test_they_are_not_simulated_together() -> None:
    with pytest.raises(SettingsError, match=r"^jobs of switchml and atp at once are not simulated: choose one of them"):
        limits.check(settings(jobs=jobs(SWITCHML, ATP)))
