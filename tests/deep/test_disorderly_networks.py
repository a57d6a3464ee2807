"""Random networks with several ways, disorder, losses, rates that change and several jobs: no sum is wrong."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from inalab.testbed.trial.validity import WRONG
from tests.unit.test_virtual import virtual

SCHEMES = ("switchml", "switchml-rdma", "atp", "esa", "byteps", "ring", "tree", "ps")


def drawn(number: int) -> dict[str, Any]:
    """The settings of a trial. Sums are compared with what the workers gave, element by element, in a sample of each step."""
    rng = random.Random(number)
    racks, workers = rng.randint(2, 4), rng.randint(1, 4)
    topology = rng.choice(["leaf-spine", "leaf-spine", "racks"])
    its: dict[str, Any] = {
        "topology": topology, "racks": racks, "workers": workers, "scheme": rng.choice(SCHEMES), "steps": 3,
        "workload": f"tensor-{rng.choice([1, 63, 4_000, 9_999])}", "compute_ms": 5.0, "patience": 600.0,
        "reorder": rng.choice([0.0, 0.02, 0.2]), "duplicate": rng.choice([0.0, 0.02, 0.2]), "hold": rng.choice([0.5, 5.0, 30.0]),
        "jitter": rng.choice([0.0, 0.0, 3.0]), "loss": rng.choice([0.0, 0.0, 0.01, 0.05]),
    }  # fmt: skip
    if topology == "leaf-spine":
        its |= {"spines": rng.randint(2, 4), "routing": rng.choice(["tree", "ecmp", "spray"]), "skew": rng.choice([0.0, 0.3, 2.0])}
    if rng.random() < 0.4:
        its["faults"] = f"rate h0 {rng.choice([2, 5])} at 0.001 for 0.01"
    if workers >= 2 and rng.random() < 0.4 and its["scheme"] in ("switchml", "atp", "esa"):
        other = {"switchml": ["switchml", "atp"], "atp": ["atp", "switchml"], "esa": ["esa"]}[its["scheme"]]
        second = {"workers": workers - workers // 2, "start": rng.choice([0.0, 0.05]), "scheme": rng.choice(other)}
        its["jobs"] = json.dumps([{"workers": workers // 2}, second])
    if its["scheme"] != "switchml-rdma" and rng.random() < 0.5:
        its |= {"atp.aggregators": rng.choice([1, 5, 40])} if "atp" in repr(its) else {}
        its |= {"esa.aggregators": rng.choice([1, 5, 40])} if its["scheme"] == "esa" else {}
    return its


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(20))
def test_no_sum_is_wrong(part: int) -> None:
    for number in range(10 * part, 10 * part + 10):
        its = drawn(number)
        found = virtual(seed=number, **its)
        wrong = {reason.name.lower() for reason in WRONG}
        assert wrong.isdisjoint(found.get("reasons", [])), its
        assert found["metrics"]["sampled"] > 0
