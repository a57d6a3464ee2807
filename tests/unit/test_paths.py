"""Several ways between racks: what switches are told, that sums are the same over all of them, and which links carry what."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from inalab.testbed.plan.settings import SettingsError, TrialSettings, make_settings
from inalab.testbed.trial.configuration import commands_for
from inalab.topologies.leaf_spine import ROUTINGS, SPRAY, TREE, LeafSpine
from inalab.topologies.plan import NetworkPlan
from inalab.topologies.topology import TopologyError
from tests.unit.test_virtual import virtual

NETWORK: dict[str, Any] = {"topology": "leaf-spine", "spines": 3, "racks": 3, "workers": 2}


@pytest.mark.parametrize("routing", ROUTINGS)
def test_switches_spread_what_has_several_ways(routing: str) -> None:
    plan = NetworkPlan(LeafSpine(2, 2, spines=3, routing=routing))
    lines = plan.forwarding("tor0")
    spread = [line for line in lines if "multipath" in line]
    far = [host for host in plan.hosts if host.rack == 1]
    ends = [*far, plan.racks[1]]  # and what is addressed to the other rack's switch
    ways = {f"table_add forwarder.stations multipath {end.station.mac} => 2 3" for end in ends}
    assert set(spread) == (set() if routing == TREE else ways)
    assert [line for line in lines if "by_packet" in line] == ["register_write forwarder.paths.by_packet 0 1"] * (routing == SPRAY)
    assert not [line for line in plan.forwarding("spine0") for host in plan.hosts if f"multipath {host.station.mac}" in line]


def test_ports_that_do_not_follow_each_other_are_refused() -> None:
    @dataclass(frozen=True)
    class Gaps(LeafSpine):
        def build(self, net: NetworkPlan) -> None:
            super().build(net)
            for tor in net.racks:
                last = tor.attachments[-1]
                tor.attachments[-1] = replace(last, port=last.port + 1)

    plan = NetworkPlan(Gaps(2, 2, spines=3, routing=SPRAY))
    with pytest.raises(TopologyError, match="switch tor0 spreads packets over ports 2, 3, 5: they have to follow each other"):
        plan.forwarding("tor0")


@pytest.mark.parametrize("scheme", ["atp", "switchml", "ring", "byteps", "tree", "ps"])
@pytest.mark.parametrize("skew", [0.0, 0.7])
def test_sums_are_the_same_over_all_ways(scheme: str, skew: float) -> None:
    its = {**NETWORK, "scheme": scheme, "steps": 2, "workload": "tensor-5000", "skew": skew}
    digests = set()
    for changes in (
        {"routing": TREE},
        {"routing": "ecmp"},
        {"routing": SPRAY},
        {"routing": SPRAY, "loss": 0.02, "reorder": 0.1, "duplicate": 0.1},
    ):
        found = virtual(**its, **changes)
        assert found["valid"], found["problems"]
        digests.add(found["metrics"]["model_digest"])
    assert len(digests) == 1


def test_atps_sums_go_evenly_over_all_spines() -> None:
    """Each rack sends a tensor's packets once, and the server's rack the results, a third over each spine."""
    found = virtual(**NETWORK, scheme="atp", steps=2, workload="tensor-19200", routing=SPRAY)["metrics"]
    up = [link["up"] for link in found["uplink_bytes"]]
    assert max(up) < 1.02 * min(up)
    tree = virtual(**NETWORK, scheme="atp", steps=2, workload="tensor-19200")["metrics"]
    assert [link["up"] > 0 for link in tree["uplink_bytes"]] == [True, False, False] * 3
    assert sum(up) < 1.02 * sum(link["up"] for link in tree["uplink_bytes"])


def test_two_servers_and_two_jobs_over_all_ways() -> None:
    found = virtual(
        topology="leaf-spine", spines=2, racks=2, workers=4, scheme="atp", steps=2, workload="tensor-5000", routing=SPRAY,
        jobs='[{"workers": 2, "atp.servers": 2}, {"workers": 2}]',
    )  # fmt: skip
    assert found["valid"], found["problems"]


@pytest.mark.parametrize("spine", [0, 1])
def test_whichever_spine_is_lost_the_others_carry_on(spine: int) -> None:
    """Half of everything has to be asked for again; nothing takes one spine alone."""
    its = {"topology": "leaf-spine", "racks": 2, "workers": 2, "spines": 2, "routing": SPRAY, "scheme": "atp", "steps": 1}
    lost = "; ".join(f"loss tor{rack}-spine{spine} 1 at 0" for rack in range(2))
    found = virtual(**its, workload="tensor-3000", compute_ms=20.0, patience=60.0, faults=lost)["metrics"]
    assert found["duration"] < 3  # of virtual time; it was 51 s with the first


def test_more_sources_than_a_switch_tells_apart_are_one_sentence() -> None:
    its = {"topology": "leaf-spine", "racks": 4, "workers": 28, "spines": 8, "scheme": "atp", "atp.servers": 32}
    make_settings(TrialSettings, its).check()
    with pytest.raises(SettingsError, match="a rack's switch tells 4096 sources apart, not 6272: fewer workers, servers or spines"):
        make_settings(TrialSettings, its | {"routing": SPRAY}).check()


def test_a_spines_links_take_longer_by_its_number() -> None:
    settings = make_settings(TrialSettings, {**NETWORK, "skew": 2.0, "latency": 1.0})
    plan = settings.plan()
    delays = [line for line in commands_for(settings, plan, 1)["tor1"] if "delay" in line]
    assert delays == ["set_queue_delay 1000", "set_queue_delay 3000 3", "set_queue_delay 5000 4"]
    assert (
        make_settings(TrialSettings, {**NETWORK, "skew": 5.0}).chosen_slots() > make_settings(TrialSettings, NETWORK).chosen_slots()
    )


@pytest.mark.parametrize(
    ("changes", "wording"),
    [
        ({"routing": "magic"}, "routing is magic: choose one of tree, ecmp, spray"),
        ({"skew": 200}, "skew is 200 ms: from 0 to 100 are possible"),
        ({"topology": "racks", "routing": "spray"}, "topology racks has no (spines|routing)"),
    ],
)
def test_ways_that_cannot_be_are_one_sentence(changes: dict[str, Any], wording: str) -> None:
    with pytest.raises(SettingsError, match=wording):
        make_settings(TrialSettings, NETWORK | changes).check()
