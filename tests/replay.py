"""What losses, bursts and slow links cost, counted to the packet: trials in virtual time on links with a delay, and nothing else."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass

from inalab.switches.embedded.build import build
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.simulator.costs import Costs
from inalab.testbed.theory import bounds
from inalab.testbed.virtual.trial import run_trial

DELAY = 80e-6  # seconds that a packet takes from one node's link to the next node, beside its time on the link


@dataclass
class Replayed:
    """What a replay has shown. `tats` are, by job, seconds from the last worker's start of a sum to the last one's end."""

    tats: list[list[float]]
    bound: float  # seconds
    lost: int
    retransmissions: int
    queries: int
    duplicates: int

    @property
    def tat(self) -> float:
        """The median over the sums of all jobs but the first of each."""
        return statistics.median(tat for of_job in self.tats for tat in of_job[1:])


def replay(settings: TrialSettings, elements: int, seed: int = 1) -> Replayed:
    """Sums of so many float32 elements, one a step. Raises TrialError, and AssertionError at a wrong sum."""
    whole = settings.changed(workload=f"tensor-{elements}")
    program = whole.running().program
    found = run_trial(
        whole, seed, build(program, {"K": str(whole.k)}, library=True), lambda message: None, Costs(delay=DELAY, naps=True)
    )
    assert "sum" not in found.get("reasons", []), found["problems"]
    sums: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for step in found["steps"]:
        sums[step.get("job", 0), step["step"]].append((step["ended"] - step["tat"], step["ended"]))
    tats: dict[int, list[float]] = defaultdict(list)
    for (job, _), spans in sorted(sums.items()):
        tats[job].append(max(end for _, end in spans) - max(begun for begun, _ in spans))
    counted = [worker["counters"] for worker in found["workers"]]
    return Replayed(
        list(tats.values()),
        bounds.seconds(whole.each()[0], elements),
        round(found["metrics"]["loss_achieved"] * found["metrics"]["loss_packets"]),
        *(sum(c[name] for c in counted) for name in ("retransmissions", "queries", "duplicates")),
    )
