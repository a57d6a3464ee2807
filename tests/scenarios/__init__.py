"""Programs with commands and packets. What real BMv2 makes of them is recorded in tests/golden/, and must come out here."""

from __future__ import annotations

from functools import cache

from inalab.switches.loss import Loss
from tests import ptf as suite
from tests.scenarios import atp, language, network, rdma, shared, switchml
from tests.scenarios.scenario import ETHERNET, PROGRAMS, Scenario

__all__ = ["ETHERNET", "PROGRAMS", "Scenario", "scenarios"]


@cache
def scenarios() -> dict[str, Scenario]:
    """All of them by name. Their packets take a second to build."""
    return {
        s.name: s
        for s in (
            language.arithmetic(), language.tables(), language.replication(), language.stacks(), language.hashes(), language.flow(),
            language.corners(), language.registers(), language.ports(), language.short(), language.profiles(), language.keys(),
            language.endings(), language.parameters(), language.objects(),
            network.forwarded(), network.guarded(), network.marked(), network.paths(False), network.paths(True),
            network.lossy("loss-bernoulli", Loss.bernoulli(0.2)), network.lossy("loss-gilbert-elliott", Loss.gilbert_elliott(0.2, 5)),
            *(switchml.one_level(workers) for workers in (1, 2, 3)), switchml.two_levels(), switchml.queries(), switchml.turned_away(),
            switchml.restart(), switchml.bare(), switchml.parts(), switchml.passing(),
            *(rdma.messages(size, has_parent) for size in (1, 4) for has_parent in (False, True)),
            rdma.ahead(), rdma.restart(), rdma.turned_away(),
            *(atp.one_level(level, workers) for level in (0, 1) for workers in (1, 2, 3)), atp.queries(0), atp.queries(1), atp.restart(),
            atp.bare(0), atp.bare(1),
            atp.turned_away(), atp.expired(), atp.transit(), atp.ways(), atp.relay(), atp.preemption(0), atp.preemption(1),
            shared.both(),
            *(switchml.ptf(f, workers, has_parent) for has_parent in (False, True) for workers in (2, 3) for f in suite.SCENARIOS),
        )
    }  # fmt: skip
