"""What losses and slow workers cost either system: counted in virtual time, so that no other load of the machine can matter."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from inalab.hosts.atp.server import AtpServer
from inalab.testbed.plan.settings import TrialSettings
from tests.replay import Replayed, replay

SCHEMES = ("switchml", "atp")
ELEMENTS = 16_640  # 2 × 4 workers at 10 Mbit/s, as in the quickstart


@cache
def replayed(scheme: str, **faults: object) -> Replayed:
    return replay(TrialSettings(scheme=scheme, steps=4, compute_ms=20, **faults), ELEMENTS)  # type: ignore[arg-type]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_without_faults_nothing_is_asked_or_sent_again(scheme: str) -> None:
    found = replayed(scheme)
    assert (found.lost, found.retransmissions, found.queries, found.duplicates) == (0, 0, 0, 0)
    # the bare round's round trip; and ATP's longer way, which the round trip that settles its factor goes, too
    assert 1.0 <= found.tat / found.bound <= {"switchml": 1.05, "atp": 1.11}[scheme]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_slow_worker_makes_nobody_send_again(scheme: str) -> None:
    found = replayed(scheme, straggler="slow", straggler_rank=5, straggler_factor=3)
    assert (found.lost, found.retransmissions) == (0, 0)
    assert found.duplicates <= 64  # answers to queries that met their results
    assert found.queries <= 8 * 64 * 4  # a worker asks once about what it has under way, and waits from then on
    assert found.tat <= 1.02 * replayed(scheme).tat


@pytest.mark.parametrize(
    ("scheme", "longer", "again", "queries"), [("switchml", 1.28, 0.6, 7.5), ("atp", 1.35, 0.6, 9.0)], ids=SCHEMES
)
@pytest.mark.parametrize("burst", [1, 8])
def test_a_loss_costs_queries_and_seldom_more_than_one_packet(
    scheme: str, longer: float, again: float, queries: float, burst: int
) -> None:
    """At 1 % on every link and direction. Fewer are sent again than lost: some that are lost go to several."""
    found = replayed(scheme, loss=0.01, burst=burst)
    assert found.lost > 100
    assert found.retransmissions <= again * found.lost
    assert found.queries <= queries * found.lost
    assert found.tat <= longer * replayed(scheme).tat


@pytest.mark.parametrize("scheme", SCHEMES)
def test_asking_sends_less_again_than_the_papers_timeouts_and_is_faster(scheme: str) -> None:
    """And they send less than they would if what is sent again could overtake other packets."""
    ask, paper = (replayed(scheme, loss=0.01, recovery=how) for how in ("ask", "paper"))
    assert ask.retransmissions * 4 < paper.retransmissions <= 7 * paper.lost
    assert ask.tat < paper.tat


def test_bursts_on_slow_links_end() -> None:
    """With this seed a job ended for want of patience: links carried nothing but answers to queries that had them already."""
    links = {"host_rate": 0.6, "uplink_rate": 0.6, "loss": 0.01, "burst": 8, "steps": 8, "compute_ms": 50}
    found = replay(TrialSettings(**links), ELEMENTS, seed=3)  # type: ignore[arg-type]
    assert found.tat <= 2 * found.bound


def test_atp_goes_on_where_bursts_meet_the_slow_link_of_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums stood still: each worker asked every 27 ms, a query waited for seconds, and each was answered with a result for all."""
    servers: list[AtpServer] = []
    begin = AtpServer.__init__

    def begun(self: AtpServer, *of: Any, **own: Any) -> None:
        begin(self, *of, **own)
        servers.append(self)

    monkeypatch.setattr(AtpServer, "__init__", begun)
    links = {"host_rate": 0.6, "loss": 0.01, "burst": 8, "steps": 6}
    found = replay(TrialSettings(scheme="atp", **links), ELEMENTS)  # type: ignore[arg-type]
    assert 0 < sum(server.core.repeated for server in servers) <= found.queries
    assert found.duplicates <= 2 * found.queries <= 40 * found.lost
    assert max(found.tats[0]) <= 7 * found.bound


@pytest.mark.parametrize("rate", [0.8, 2])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_loss_costs_as_much_on_slow_links_as_on_fast_ones(scheme: str, rate: float) -> None:
    """Round trips take a third of a second here at 0.8 Mbit/s: who repeats queries sooner than that fills links with answers."""
    links = {"host_rate": rate, "uplink_rate": rate}
    assert replayed(scheme, loss=0.01, **links).tat <= {"switchml": 1.3, "atp": 1.4}[scheme] * replayed(scheme, **links).tat


@pytest.mark.parametrize(("loss", "longer"), [(0.03, 2.0), (0.1, 5.5)])
def test_heavy_loss_is_survived(loss: float, longer: float) -> None:
    found = replayed("switchml", loss=loss)
    assert found.tat <= longer * replayed("switchml").tat
    assert found.queries <= 5 * found.lost


def test_atp_is_as_fast_as_switchml_with_ample_memory() -> None:
    """At least 0.9 of its ATE/s at the same k."""
    assert replayed("switchml").tat > 0.9 * replayed("atp").tat


def test_atp_takes_at_most_three_times_as_long_as_switchml_where_a_tenth_is_lost() -> None:
    assert replayed("atp", loss=0.1).tat <= 3 * replayed("switchml", loss=0.1).tat
