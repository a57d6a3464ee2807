"""What several experiments measure of a trial: functions of its entry in trials.jsonl."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import Any

from inalab.hosts.updates.wire import MEMBER
from inalab.schemes.tcp import TCP_OVERHEAD
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.record.metrics import number
from inalab.testbed.theory import bounds

Record = dict[str, Any]
Measure = Callable[[Record], float]


def metric(name: str, factor: float = 1.0) -> Measure:
    """A trial's metric of that name, times a factor; NaN where it was no finite number."""
    return lambda trial: factor * number(trial["metrics"][name])


ATE = metric("ate_per_second", 1e-6)
GOODPUT = metric("ate_per_second", 32e-6)  # Mbit/s of the tensor
PERIOD = metric("period_median", 1000)  # ms


def critical_path(trial: Record) -> float:
    """The least time of a step, in ms (testbed.theory.pipelines)."""
    return 1000 * bounds.of_step(trial)


def retransmitted(trial: Record) -> float:
    """Retransmissions, in percent of the packets sent."""
    return float(100 * trial["metrics"]["retransmissions"] / trial["metrics"]["packets_sent"])


def packets_lost(trial: Record) -> float:
    """Packets that were lost on the links, of whatever kind."""
    return float(trial["metrics"]["loss_achieved"] * trial["metrics"]["loss_packets"])


def of_bound(trial: Record) -> float:
    """A trial's ATE/s over the bound of it."""
    return float(trial["metrics"]["ate_per_second"] / bounds.ate(trial))


def throughput(trial: Record) -> float:
    """Steps per second, over the whole training: the batch is the same, so a ratio is that of samples per second."""
    return float(trial["settings"]["steps"] / trial["metrics"]["duration"])


def predicted_throughput(trial: Record) -> float:
    """Likewise, as compute and the scheme's bound allow, one after the other."""
    return 1 / bounds.of_step(trial)


def handled(trial: Record) -> float:
    """What a worker's processor sends and receives for a thousand elements of the tensor: packets, segments or messages."""
    settings, metrics = trial["settings"], trial["metrics"]
    workers = settings["racks"] * settings["workers"]
    return float(1000 * metrics["handled"] / (workers * settings["steps"] * metrics["elements"]))


def efficiency(trial: Record) -> float:
    """Throughput over that of workers that compute and never wait for sums."""
    return throughput(trial) * float(trial["settings"]["compute_ms"]) / 1000


def parts(trial: dict[str, Any]) -> list[dict[str, Any]]:
    """The metrics of each of a trial's jobs."""
    return trial["metrics"].get("jobs", [trial["metrics"]])  # type: ignore[no-any-return]


def fairness(trial: Record) -> float:
    """Jain's index of the jobs' throughput in elements per second of communication: from 1/n, where one has all, to 1."""
    rates = [part["elements"] / part["tat_mean"] for part in parts(trial)]
    return float(sum(rates) ** 2 / (len(rates) * sum(rate**2 for rate in rates)))


def collisions(trial: Record) -> float:
    """ATP's packets that found another's aggregator, in percent of those that claimed one or would have."""
    events = [job for switch in trial.get("switches", {}).values() for job in switch.get("jobs", [])]
    decided = sum(e["claims"] + e["collisions"] for e in events)
    return float(100 * sum(e["collisions"] for e in events) / max(decided, 1))


def into_servers(trial: dict[str, Any]) -> float:
    """Bytes into the servers over those that would carry every job's sums once a step, whole and in frames; NaN where none were
    counted."""
    settings, metrics = TrialSettings(**trial["settings"]), trial["metrics"]
    if "server_bytes" not in metrics:
        return float("nan")  # simulated
    once = sum(
        bounds.framing(job, part["elements"]) * 4 * part["elements"] * job.steps
        for job, part in zip(settings.each(), parts(trial), strict=True)
    )
    return float(sum(server["down"] for server in metrics["server_bytes"]) / once)


def _at_accuracy(trial: Record, target: float, key: str) -> float:
    """This field of the first record with so much test accuracy; NaN where none has."""
    return next((float(r[key]) for r in trial["steps"] if r.get("accuracy", 0) >= target), float("nan"))


def time_to_accuracy(target: float) -> Measure:
    """Seconds until the test accuracy is so much; NaN where it never is."""
    return lambda trial: _at_accuracy(trial, target, "ended")


def updates_to_accuracy(target: float) -> Measure:
    """Updates in the model that first has this test accuracy, over the number of workers; NaN where none has."""
    return lambda trial: _at_accuracy(trial, target, "version") / int(trial["settings"]["workers"] * trial["settings"]["racks"])


def each_delay(trial: Record) -> list[float]:
    """The delays of the updates that were applied, in order of size."""
    return sorted(r["delay"] for r in trial["steps"] if r.get("delay") is not None)


def share_dropped(trial: Record) -> float:
    """Of all updates."""
    updates = [r["update"] for r in trial["steps"]]
    return sum(update["applied_at"] is None for update in updates) / len(updates)


def update_seconds(trial: Record) -> float:
    """That an update takes on a worker's link by itself, headers included."""
    return float(TCP_OVERHEAD * 32e-6 * trial["metrics"]["elements"] / trial["settings"]["host_rate"])


def when_applied(trial: Record) -> list[float]:
    """Seconds from the beginning of the training until each update is applied, in order; of those that are."""
    return sorted(r["update"]["applied"] for r in trial["steps"] if r["update"]["applied"] is not None)


def completions(trial: Record) -> list[float]:
    """Likewise, from the first request."""
    first = min(r["update"]["requested"] for r in trial["steps"])
    return [applied - first for applied in when_applied(trial)]


def mean_completion(trial: Record) -> float:
    """Of all updates, in seconds."""
    return fmean(completions(trial))


def time_to_server(trial: Record) -> float:
    """Seconds from when a worker has its update until it is applied; the mean over all that are."""
    return fmean(u["applied"] - u["requested"] for r in trial["steps"] if (u := r["update"])["applied"] is not None)


def updates_per_second(trial: Record) -> float:
    """That are applied, from the first request until the last is."""
    times = completions(trial)
    return len(times) / times[-1]


def delays(trial: Record) -> float:
    """The mean delay of the updates that were applied; NaN for synchronous training."""
    return float(trial["metrics"].get("delay_mean", "nan"))


def transfers_to_server(trial: Record) -> int:
    """Updates that came to the server, some of which were several workers'."""
    return sum(r["update"]["way"].startswith("server") for r in trial["steps"])


def barrier_wait(trial: Record) -> float:
    """Seconds from when an aggregator's links are free until all is in that it absorbs, and it sends; the mean over all that sent
    others' updates. NaN where none did."""
    alone = 4 * trial["metrics"]["elements"] + MEMBER.size
    waits = [u["sent"] - u["turn"] for r in trial["steps"] if (u := r["update"])["octets"] > alone]
    return fmean(waits) if waits else float("nan")


def tensors_into_server(trial: Record) -> float:
    """Bytes into the servers in all steps, in tensors and in frames; whatever else goes there is among them."""
    return into_servers(trial) * int(trial["settings"]["steps"])


def up_busiest_uplink(trial: Record) -> float:
    """Bytes up the busiest rack's uplink in a step, in tensors, as the kernel counts frames."""
    settings, metrics = TrialSettings(**trial["settings"]), trial["metrics"]
    return float(max(rack["up"] for rack in metrics["uplink_bytes"]) / settings.steps / (4 * metrics["elements"]))


def uplink_in_closed_form(trial: Record) -> float:
    """The same in closed form, which is what the oracle gives, times what headers and exponents add."""
    return bounds.uplink_tensors(TrialSettings(**trial["settings"]), trial["metrics"]["elements"])


def distances(trial: Record) -> list[tuple[float, float]]:
    """When updates were applied, in seconds, and the distance of the server's replica then; empty without a replica."""
    return sorted((u["applied"], u["distance"]) for r in trial["steps"] if (u := r["update"]).get("distance") is not None)


def fault_times(trial: Record, what: str) -> list[float]:
    """When faults of this kind have begun, in seconds since the training's start."""
    return [fault["begun"] for fault in trial["metrics"].get("faults", ()) if fault["what"] == what]


def takeover(trial: Record) -> float:
    """Seconds from when the server was killed until its replica applied an update that was sent after that; NaN if it never did."""
    (death,) = fault_times(trial, "die")
    sent = [u["applied"] - death for r in trial["steps"] if ((u := r["update"])["sent"] or 0) > death]
    return min(sent, default=float("nan"))


def per_update(server: int, direction: str) -> Measure:
    """Bytes `up` from a server or `down` to it over the number of updates, in tensors and in frames."""

    def measure(trial: Record) -> float:
        metrics = trial["metrics"]
        tensor = TCP_OVERHEAD * 4 * metrics["elements"]
        return float(metrics["server_bytes"][server][direction] / tensor / len(when_applied(trial)))

    return measure
