"""A training replayed in one process: what a job whose members change has to come to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from inalab.hosts.training.replica import Replica
from inalab.testbed.plan.settings import TrialSettings


def members_of(steps: Iterable[dict[str, Any]]) -> list[tuple[int, ...]]:
    """Who has taken part in each step, by its records; all of them say the same."""
    found: dict[int, set[tuple[int, ...]]] = {}
    for step in steps:
        found.setdefault(step["step"], set()).add(tuple(step["members"]))
    assert all(len(said) == 1 for said in found.values()), found
    assert sorted(found) == list(range(len(found)))
    return [said.pop() for _, said in sorted(found.items())]


def replayed(settings: TrialSettings, seed: int, members: Iterable[tuple[int, ...]]) -> Replica:
    """The model after steps each of which applied the mean, in float64, of these workers' gradients."""
    s = settings
    replica = Replica(s.workload, seed, 0, 1, batch=s.batch, rate=s.learning_rate, momentum=s.momentum)
    for step, those in enumerate(members):
        gradients = []
        for replica.rank in those:
            gradients.append(replica.gradient(step).layers[0].double())
        replica.apply(torch.stack(gradients).mean(dim=0).float(), 1)
    return replica
