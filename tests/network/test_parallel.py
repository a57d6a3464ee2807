"""Training that PyTorch splits, on networks: one model, and what the workers' links carry."""

from __future__ import annotations

from typing import Any

import pytest

from inalab.experiments.fsdp import carried, in_closed_form
from inalab.hosts.training.pipeline import BARRIER, DDP, OF_TORCH
from inalab.switches.target import Target
from inalab.testbed.plan.settings import TrialSettings
from tests.network.running import run_trial

SETTINGS: dict[str, Any] = {
    "racks": 2, "workers": 2, "host_rate": 50, "uplink_rate": 50, "steps": 4, "compute_ms": 60, "workload": "digits-mlp-deep",
    "evaluate_every": 1000,
}  # fmt: skip


def measured(target: Target, **change: Any) -> dict[str, Any]:
    settings = TrialSettings(**SETTINGS | change)
    return {"settings": settings.model_dump()} | run_trial(settings, 1, target, lambda message: None)


@pytest.mark.parametrize("loss", [0.0, 0.01])
def test_switches_carry_what_pytorch_calls(target: Target, loss: float) -> None:
    whole = measured(target, pipeline=BARRIER)
    for pipeline in OF_TORCH:
        trial = measured(target, pipeline=pipeline, loss=loss)
        assert trial["metrics"]["model_digest"]
        losses = [[step["train_loss"] for step in of["steps"]] for of in (whole, trial)]
        assert losses[1] == pytest.approx(losses[0], rel=1e-3)
        chunks = trial["metrics"]["elements"] / 64 * 4 * SETTINGS["steps"]  # of all workers
        assert trial["metrics"]["packets_sent"] > (1 if pipeline == DDP else 2.5) * chunks  # Gloo's are not among them
        for way in ("up", "down"):
            assert 1.2 < carried(way)(trial) / in_closed_form(trial, way) < 2


@pytest.mark.parametrize("scheme", ["gloo", "ring"])
def test_so_does_gloo_where_a_scheme_has_no_copies(target: Target, scheme: str) -> None:
    for pipeline in OF_TORCH:
        trial = measured(target, scheme=scheme, pipeline=pipeline)
        assert trial["metrics"]["model_digest"]
        for way in ("up", "down"):
            assert 1 < carried(way)(trial) / in_closed_form(trial, way) < 1.6
