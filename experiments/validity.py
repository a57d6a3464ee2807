"""When a trial is not to be believed: the emulation, not the protocol, decided what was measured."""

from __future__ import annotations

import math
from typing import Any

from experiments.settings import TrialSettings

MOST_SATURATED = 0.1  # share of the time in which somebody could do no more; beyond, the machine was the bottleneck
MOST_NEEDLESS = 0.01  # share of packets sent again where nothing is lost and nobody is slow
SIGMAS = 5.0  # of the achieved loss rate around the requested one


def loss_deviation(settings: TrialSettings, packets: int) -> float:
    """Standard deviation of the achieved loss rate over `packets` packets; bursts widen it."""
    model = settings.loss_model()
    if model is None or not packets:
        return 0.0
    rate = model.mean
    correlation = max(0.0, 1 - model.enter - model.leave) if model.enter else 0.0
    return math.sqrt(rate * (1 - rate) / packets * (1 + correlation) / (1 - correlation))


def judge(metrics: dict[str, Any], settings: TrialSettings) -> list[str]:
    """What is wrong with a trial, a sentence each; empty for a valid one."""
    problems = []
    if metrics["padding_min"] < 0:
        problems.append(f"a step computed {-metrics['padding_min'] * 1000:.1f} ms longer than its virtual time: raise compute_ms")
    if metrics["saturated"] > MOST_SATURATED:
        problems.append(
            f"for {100 * metrics['saturated']:.0f} % of the time {metrics['saturated_by']} could do no more: lower host_rate"
        )
    if metrics["queue_drops"] and settings.queue is None:
        problems.append(f"{metrics['queue_drops']} packets were dropped in queues, which nobody asked for")
    again, sent = metrics["retransmissions"], metrics["packets_sent"]
    faultless = not settings.loss and settings.straggler == "none" and settings.outage_at is None
    faultless = faultless and settings.program != "atp"  # which sends again what found no aggregator in time
    if faultless and again > MOST_NEEDLESS * sent:
        problems.append(f"{again} of {sent} packets were sent again although none was to be lost: lower host_rate")
    off = abs(metrics["loss_achieved"] - settings.loss)
    if off > SIGMAS * loss_deviation(settings, metrics["loss_packets"]):
        problems.append(f"loss was {100 * metrics['loss_achieved']:.3f} % where {100 * settings.loss:g} % was asked for")
    if not metrics["model_digest"]:
        problems.append("the workers ended with different models")
    return problems
