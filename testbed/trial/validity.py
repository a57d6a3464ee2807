"""When a trial is not to be believed: the emulation, not the protocol, decided what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.trial.processors import PROCESSORS

MOST_SATURATED = 0.1  # share of the time with a saturated switch or processors; beyond, the machine was the bottleneck
MOST_NEEDLESS = 0.01  # share of retransmissions where nothing is lost and no worker is slow
LEAST_FOREIGN = 0.2  # share of the processors; if others hold this much, they are to blame and not the trial
MOST_STOLEN = 0.1  # share of the processors' time; it is withheld in pauses, in which links stand idle
MOST_IDLE = 0.3  # share of idle time; above it, others cannot have slowed the trial
ROUNDING = 1e-9  # of a sum of norms
SIGMAS = 5.0  # of the achieved loss rate around the requested one


class Reason(Enum):
    """Why a trial is not valid; trials.jsonl has the names, in small letters."""

    SATURATED = "for more than a tenth of the time a switch, or all processors, had no time left (`saturated`)"
    LATE = "a step's computation took longer than its virtual time (`padding_min` below 0)"
    QUEUE_DROPS = "packets were dropped in queues that were not limited on purpose (`queue_drops`)"
    NEEDLESS = "more than 1 % of the packets were retransmitted although nothing was lost and no worker was slow"
    STOLEN = "the hypervisor withheld more than a tenth of the processors (`cpu_stolen`)"
    LOSS = "the achieved loss is more than five standard deviations from the requested one"
    MODELS = "the workers ended with different models"
    DIVERGED = "the training diverged"
    SUM = "a sum is not the sum, as samples of it show (`sampled`)"
    BOUND = "an update was later, or a replica further from its server, than the scheme's bound allows, or a server had no replica"
    DIED = "a worker or a server died that was not killed on request"
    PAUSED = "`inalab watch` paused a switch"


WRONG = (Reason.SUM, Reason.MODELS, Reason.DIVERGED, Reason.BOUND)  # what the machine cannot be blamed for


@dataclass(frozen=True)
class Problem:
    """Why a trial is not valid, and a sentence with what to do about it."""

    reason: Reason
    text: str


def recorded(problems: Sequence[Problem]) -> dict[str, Any]:
    """A trial's verdict as trials.jsonl has it: what is wrong comes before what the machine did."""
    problems = sorted(problems, key=lambda problem: problem.reason not in WRONG)
    reasons = [problem.reason.name.lower() for problem in problems]
    return {"valid": not problems, "problems": [problem.text for problem in problems]} | ({"reasons": reasons} if reasons else {})


def _faultless(settings: TrialSettings) -> bool:
    """Whether nothing makes a worker send a packet again."""
    steady = not settings.disorder() and not settings.schedule() and not settings.plan().topology.by_packet
    undisturbed = steady and not settings.loss and settings.straggler == "none" and not settings.faults
    return undisturbed and not any(job.of_scheme().resends_without_loss for job in settings.each())


def loss_deviation(settings: TrialSettings, packets: int) -> float:
    """Standard deviation of the achieved loss rate over `packets` packets; bursts widen it."""
    model = settings.loss_model()
    if model is None or not packets:
        return 0.0
    rate = model.mean
    correlation = max(0.0, 1 - model.enter - model.leave) if model.enter else 0.0
    return math.sqrt(rate * (1 - rate) / packets * (1 + correlation) / (1 - correlation))


def queue_problems(metrics: dict[str, Any], settings: TrialSettings) -> list[Problem]:
    """What is wrong with a trial's queues."""
    if metrics["queue_drops"] and settings.queue is None:
        dropped = f"{metrics['queue_drops']} packets were dropped in queues that were not limited on purpose"
        return [Problem(Reason.QUEUE_DROPS, dropped)]
    return []


def judge(metrics: dict[str, Any], settings: TrialSettings) -> list[Problem]:
    """What is wrong with a trial, a sentence each with what to do about it; empty for a valid one."""
    problems: list[Problem] = []

    def found(reason: Reason, text: str) -> None:
        problems.append(Problem(reason, text))

    crowded = _crowding(metrics)
    withheld = False  # that the hypervisor withheld processors is among the problems
    if metrics["padding_min"] < 0:
        late = f"a step computed {-metrics['padding_min'] * 1000:.1f} ms longer than its virtual time"
        found(Reason.LATE, f"{late}, and {crowded.text}" if crowded else f"{late}: raise compute_ms")
        withheld |= crowded.stolen
    why, blamed = _saturated(metrics)
    if why:
        withheld |= blamed.stolen
        found(Reason.SATURATED, why)
    if metrics.get("pauses"):
        found(Reason.PAUSED, "`inalab watch` paused a switch: run again without `inalab watch --pace`")
    problems += queue_problems(metrics, settings)
    again, sent = metrics["retransmissions"], metrics["packets_sent"]
    if again > MOST_NEEDLESS * sent and _faultless(settings):
        needless = f"{again} of {sent} packets were retransmitted although none was to be lost"
        found(Reason.NEEDLESS, f"{needless}, and {crowded.text}" if crowded else f"{needless}: lower host_rate")
        withheld |= crowded.stolen
    if (stolen := metrics.get("cpu_stolen", 0.0)) > MOST_STOLEN and not withheld:
        found(Reason.STOLEN, _withheld(stolen))
    off = abs(metrics["loss_achieved"] - settings.loss)
    if off > SIGMAS * loss_deviation(settings, metrics["loss_packets"]):
        found(Reason.LOSS, f"loss was {100 * metrics['loss_achieved']:.3f} % where {100 * settings.loss:g} % was requested")
    for job, measured in zip(settings.each(), metrics.get("jobs", [metrics]), strict=True):
        problems += _of_job(job, measured, _death(metrics))
    if not metrics["model_digest"]:
        found(Reason.MODELS, "the workers ended with different models")
    return problems


def _death(metrics: dict[str, Any]) -> float:
    """When a server was killed on request, in seconds; infinite if none was."""
    return min(
        (f["begun"] for f in metrics.get("faults", ()) if f["what"] == "die" and f["whom"].startswith("s")), default=math.inf
    )


def _of_job(job: TrialSettings, measured: dict[str, Any], death: float) -> list[Problem]:
    """What is wrong with a job's updates, replica and model; `death` is when a server was killed on request."""
    problems = []
    most, largest = job.of_scheme().delay_bound(job.scheme_settings()), measured.get("delay_max", 0)
    if most is not None and largest > most:
        problems.append(Problem(Reason.BOUND, f"an update was applied {largest:g} updates late, where {job.scheme} allows {most}"))
    if (step := measured.get("diverged")) is not None:
        diverged = f"the model diverged: in step {step} its loss is no finite number; lower learning_rate"
        problems.append(Problem(Reason.DIVERGED, diverged))
    away, allowed = measured.get("distance_max"), job.of_scheme().distance_bound(job.scheme_settings())
    if allowed is not None and away is not None and away > allowed * (1 + ROUNDING):
        lacked = f"the replica lacked updates with norms of {away:.4g}, where {job.scheme} allows {allowed:g}"
        problems.append(Problem(Reason.BOUND, lacked))
    if allowed is not None and (single := measured.get("single_from", math.inf)) < death:
        problems.append(Problem(Reason.BOUND, f"from {single:.2f} s on the server had no replica"))
    return problems


@dataclass(frozen=True)
class _Foreign:
    """What outside the trial used the processors, and what to do; empty if nothing did."""

    text: str = ""
    stolen: bool = False  # the hypervisor did

    def __bool__(self) -> bool:
        return bool(self.text)


def saturation(metrics: dict[str, Any]) -> str:
    """What was saturated for too much of the time, whose work it was, and what to do; empty where nothing was."""
    return _saturated(metrics)[0]


def _saturated(metrics: dict[str, Any]) -> tuple[str, _Foreign]:
    """The text of saturation(), and what outside the trial is to blame."""
    if metrics.get("saturated", 0.0) <= MOST_SATURATED:
        return "", _Foreign()
    shares: dict[str, float] = metrics.get("saturated_shares") or {}
    verb = "were" if metrics["saturated_by"] == PROCESSORS else "was"
    at_limit = f"{metrics['saturated_by']} {verb} saturated for {100 * metrics['saturated']:.0f} % of the time"
    if metrics["saturated_by"] != PROCESSORS or not shares:
        return f"{at_limit}: lower host_rate", _Foreign()
    if foreign := _foreign(shares["others"], shares["stolen"], " in these moments"):
        return f"{at_limit}, and {foreign.text}", foreign
    switches, hosts = shares["switches"], shares["hosts"]
    remedy = "lower host_rate" if switches >= hosts else "lower host_rate, or take fewer workers or a smaller workload"
    own = f"the trial's own switches took {100 * switches:.0f} % and its hosts {100 * hosts:.0f} %"
    return f"{at_limit}, of which {own}: {remedy}", _Foreign()


def _crowding(metrics: dict[str, Any]) -> _Foreign:
    """Who else held the processors over the whole trial; empty where they had time left."""
    if metrics.get("cpu_idle", 1.0) > MOST_IDLE:
        return _Foreign()
    return _foreign(metrics.get("cpu_others", 0.0), metrics.get("cpu_stolen", 0.0))


def _foreign(others: float, stolen: float, when: str = "") -> _Foreign:
    """What outside the trial held so much of the processors that the trial is not to blame; `when` names the period."""
    if max(others, stolen) < LEAST_FOREIGN:
        return _Foreign()
    if others >= stolen:
        return _Foreign(f"other processes took {100 * others:.0f} % of the processors{when}: close them and run again")
    return _Foreign(_withheld(stolen, when), stolen=True)


def _withheld(stolen: float, when: str = "") -> str:
    """What the hypervisor took of the processors, and what to do."""
    share = f"{100 * stolen:.0f} % of the processors (steal){when}"
    return f"the hypervisor withheld {share}: run again when it is idle"
