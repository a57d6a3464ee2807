"""Training over a scheme without switches: the same as over the switches but for rounding."""

from __future__ import annotations

import pytest

from hosts.schedules import SCHEDULES
from switches.target import Target
from tests.network.test_trials import trial


@pytest.mark.parametrize("scheme", SCHEDULES)
def test_training_over_messages_learns_as_over_switches(scheme: str, target: Target) -> None:
    result, switched = trial(target, scheme=scheme), trial(target)
    assert result["metrics"]["model_digest"]
    assert result["metrics"]["packets_sent"] > 0
    lossy = trial(target, scheme=scheme, loss=0.02)
    assert lossy["metrics"]["retransmissions"] > 0
    assert lossy["metrics"]["model_digest"] == result["metrics"]["model_digest"]
    assert result["metrics"]["final_test_loss"] == pytest.approx(switched["metrics"]["final_test_loss"], rel=1e-3)
