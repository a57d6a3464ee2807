"""What a trial's metrics are called and in which unit they are written, in the report and in comparisons."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

MISSING = "–"


@dataclass(frozen=True)
class Metric:
    """A key of a trial's `metrics`: its heading, the unit it is shown in, and how many of that unit one in trials.jsonl is."""

    key: str
    heading: str
    unit: str = ""
    scale: float = 1.0
    digits: str = ",.4g"
    note: str = ""

    def text(self, value: Any) -> str:
        """The value as shown, without its unit; an en dash for what is missing or not finite."""
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return MISSING
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, int | float):
            return format(self.scale * value, self.digits)
        return str(value) or MISSING


MAIN = (
    Metric("final_accuracy", "accuracy", "%", 100, ".1f", "on the test set, after the last step"),
    Metric("final_test_loss", "test loss", "nats", 1, ".3f", "after the last step"),
    Metric("duration", "duration", "s", 1, ".2f", "from the start of the first step to the end of the last"),
    Metric(
        "step_median", "step", "ms", 1000, ".1f", "median over the steps, from the first worker's beginning to the last one's end"
    ),
    Metric(
        "tat_median",
        "median TAT",
        "ms",
        1000,
        ".1f",
        "median over the steps' TAT: from when the last worker comes until the last one has the sum, or all sums of the step",
    ),
    Metric("ate_per_second", "ATE/s", "", 1, ",.0f", "aggregated tensor elements per second"),
    Metric("loss_achieved", "loss", "%", 100, ".3f", "achieved on the links, as counted"),
    Metric("retransmissions", "resent", "", 1, ",.0f", "packets, all workers together"),
    Metric("queries", "queries", "", 1, ",.0f", "82 bytes on the wire each, all workers together"),
    Metric("cpu_idle", "CPU idle", "%", 100, ".0f", "of the whole machine"),
)
DETAIL = (
    Metric("period_median", "period", "ms", 1000, ".1f", "median over the steps, from the beginning of one to that of the next"),
    Metric("tat_mean", "mean TAT", "ms", 1000, ".1f", "mean of the same, for which a few long ones count; figures of loss have it"),
    Metric("compute_mean", "compute", "ms", 1000, ".1f", "mean over workers and steps, padding included"),
    Metric("waiting_mean", "waiting", "ms", 1000, ".1f", "for the last worker: mean over workers and steps"),
    Metric("communication_mean", "communication", "ms", 1000, ".1f", "mean over workers and steps"),
    Metric(
        "rtt",
        "round trip",
        "ms",
        1000,
        ".2f",
        "of a packet: a step's mean, median over workers and steps; 0 if the scheme has none",
    ),
    Metric(
        "delay_mean",
        "delay",
        "changes",
        1,
        ".1f",
        "of others between a worker's pull and its own change: mean over workers and steps",
    ),
    Metric("delay_max", "largest delay", "changes", 1, ".4g", "likewise, the largest"),
    Metric("distance_max", "largest distance", "", 1, ".3g", "of the server's replica: norms of the updates that it lacks"),
    Metric("single_from", "no replica", "s", 1, ".2f", "from when on updates were applied that no replica was to have"),
    Metric("diverged", "diverged", "", 1, ".0f", "the first step whose loss is no finite number"),
    Metric("sampled", "sums compared", "", 1, ",.0f", "elements of sums that were compared with what the workers gave"),
    Metric("error_median", "error", "", 1, ".2e", "of the sum, relative to that in float64"),
    Metric("packets_sent", "sent", "packets", 1, ",.0f", "all workers together, retransmissions included"),
    Metric(
        "handled",
        "handled",
        "packets",
        1,
        ",.0f",
        "by workers' processors: packets, or messages of several",
    ),
    Metric("loss_packets", "subject to loss", "packets", 1, ",.0f", "that links with loss carried or lost"),
    Metric("held_back", "held back", "packets", 1, ",.0f", "by links, so that others overtook them"),
    Metric("doubled", "doubled", "packets", 1, ",.0f", "that links delivered twice"),
    Metric("rate_changes", "rate changes", "", 1, ",.0f", "of links, while the trial ran"),
    Metric("queue_drops", "queue drops", "packets", 1, ",.0f", "at switches and links; losses on request are not among them"),
    Metric("pauses", "pauses", "", 1, ",.0f", "of switches, by `inalab watch`; the times mean nothing then"),
    Metric("saturated", "saturated", "%", 100, ".0f", "of the time in which a switch, or all processors, had no time left"),
    Metric("saturated_by", "saturated by", note="what had no time left, most often"),
    Metric("cpu_switches", "CPU, switches", "%", 100, ".0f", "of the trial, as shares of the whole machine"),
    Metric("cpu_hosts", "CPU, hosts", "%", 100, ".0f", "of the trial: workers, servers, the coordinator"),
    Metric("cpu_others", "CPU, others", "%", 100, ".0f", "processes that are not of the trial"),
    Metric("cpu_stolen", "CPU, stolen", "%", 100, ".0f", "withheld by the hypervisor"),
    Metric("padding_min", "least padding", "ms", 1000, ".1f", "negative: a step computed longer than its virtual time"),
    Metric("aggregators_held", "aggregators held", "", 1, ",.0f", "when all servers had left; 0 is right"),
    Metric("elements", "elements", "", 1, ",.0f", "of the gradient"),
    Metric("setup", "set-up", "s", 1, ".2f", "before the first step"),
)
ELSEWHERE = ("model_digest",)  # has a place of its own
COMPARED = (
    "tat_median", "step_median", "ate_per_second", "duration", "final_accuracy", "final_test_loss", "retransmissions",
    "loss_achieved",
)  # fmt: skip


def named(key: str) -> Metric:
    """The metric of that key; one that is not listed here is shown as it is in trials.jsonl."""
    return next((m for m in (*MAIN, *DETAIL) if m.key == key), Metric(key, key.replace("_", " ")))


def present(trials: list[dict[str, Any]]) -> tuple[list[Metric], list[Metric]]:
    """The metrics that some trial has: those to show at first (unlisted ones among them), and the details."""
    keys = dict.fromkeys(
        key for t in trials for key, value in t.get("metrics", {}).items() if not isinstance(value, dict | list)
    )  # fmt: skip
    listed = {m.key for m in (*MAIN, *DETAIL)} | set(ELSEWHERE)
    others = [named(key) for key in keys if key not in listed]
    return [m for m in MAIN if m.key in keys] + others, [m for m in DETAIL if m.key in keys]


def number(recorded: float | None) -> float:
    """A number of a record, where None stands for what was not finite."""
    return math.nan if recorded is None else float(recorded)
