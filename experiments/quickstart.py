"""Two racks of four workers train a digits MLP, gradients summed in the switches, with and without faults.

The same model is trained under no faults, under three kinds of packet loss on every link and with one slow worker.
Loss may cost time and must not change a bit of the model: what the switches add are integers, each exactly once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.hosts.training.pipeline import ASYNCHRONOUS
from inalab.testbed.draw import plots
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.record.runs import Run


class Settings(TrialSettings):
    """A trial's settings, and how often each fault is tried."""

    seeds: int = Field(1, ge=1, le=1000, description="of each trial: seed, seed + 1, ...; figures are of the first")


QUICK: dict[str, Any] = {"steps": 20}

NO_FAULTS: dict[str, Any] = {"loss": 0.0, "burst": 1.0, "straggler": "none"}
FAULTS: dict[str, dict[str, Any]] = {
    "no faults": {},
    "0.1 % loss": {"loss": 0.001},
    "1 % loss": {"loss": 0.01},
    "1 % loss in bursts": {"loss": 0.01, "burst": 8},
    "one worker 3× slower": {"straggler": "slow", "straggler_rank": 5, "straggler_factor": 3},
}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """One trial for each kind of fault and seed; those of a seed have the same model, data and batches.

    Faults that are set by hand make one more trial, "as set".
    """
    planned = {name: settings.changed(**NO_FAULTS | _fitted(faults, settings)) for name, faults in FAULTS.items()}
    if settings.loss or settings.straggler != NO_FAULTS["straggler"]:
        planned["as set"] = settings.changed()
    seeds = range(seed, seed + settings.seeds)
    return [Trial(name, {"faults": name}, chosen, own) for own in seeds for name, chosen in planned.items()]


def _of(run: Run, seed: int) -> Run:
    """Its trials of one seed."""
    return replace(run, trials=[trial for trial in run.trials if trial.get("seed", 0) == seed])


def _fitted(faults: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """The slow worker is the sixth, or the last where there are fewer."""
    last = settings.racks * settings.workers - 1
    return faults | ({"straggler_rank": min(faults["straggler_rank"], last)} if "straggler_rank" in faults else {})


CAPTIONS = {
    "learning": "Loss (running median of 5 steps) and accuracy against steps, and against seconds; dotted: faults of a schedule",
    "tat": "Tensor aggregation time (TAT) of each step, from when the last worker came to it until the last one had it. A link "
    "may send 1,600 bytes ahead of its rate, so a step can end a millisecond before the line-rate bound",
    "retransmissions": "Retransmitted packets (those with a vector) of all workers together. One lost packet holds up its chunk "
    "for all, and every worker queries the switch; queries are headers, and are not counted here",
    "step_time": "Where a step's time goes, for each worker: medians over the steps",
}


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Learning curves, aggregation time, retransmissions, and where each worker's time went."""
    run = _of(run, run.record["seed"])
    yield "learning", CAPTIONS["learning"], plots.learning_curves(run)
    yield "tat", CAPTIONS["tat"], plots.aggregation_time(run)
    yield "retransmissions", CAPTIONS["retransmissions"], plots.retransmissions(run)
    yield "step_time", CAPTIONS["step_time"], plots.step_time(run)


def findings(run: Run) -> list[str]:
    """Whether the models are equal bit for bit, and what each fault cost in time, for each seed."""
    seeds = sorted({trial.get("seed", 0) for trial in run.trials})
    by_seed = [(seed, _found(_of(run, seed))) for seed in seeds]
    return [f"seed {seed}: {sentence}" if len(seeds) > 1 else sentence for seed, sentences in by_seed for sentence in sentences]


def _found(run: Run) -> list[str]:
    reference = run.trial("no faults")
    if reference is None or "metrics" not in reference:
        return ["The trial without faults has no result, so nothing can be compared with it."]
    base = reference["metrics"]
    sentences = []
    if not reference["valid"]:
        sentences.append("The trial without faults is not valid, so the ratios of times below are not to be relied on.")
    others = [t for t in run.finished if t is not reference]
    diverged = [t["name"] for t in run.finished if "diverged" in t["metrics"]]
    trained = [t for t in others if not {t["name"], reference["name"]} & {*diverged}]
    equal = [t["name"] for t in trained if t["metrics"]["model_digest"] == base["model_digest"]]
    differing = [t["name"] for t in trained if t["name"] not in equal]
    if diverged:
        sentences.append(f"The model diverged, so that it is compared with no other, under: {', '.join(diverged)}.")
    if equal:
        sentences.append(
            f"Compared bit for bit, the final model is the same as without faults (SHA-256 {base['model_digest'][:16]}…) under: "
            f"{', '.join(equal)}."
        )
    if differing and run.record["settings"]["pipeline"] != ASYNCHRONOUS:
        sentences.append(f"The final model DIFFERS from the one without faults under: {', '.join(differing)}.")
    for t in others:
        m = t["metrics"]
        sentences.append(
            f"{t['name']}: training takes {m['duration'] / base['duration']:.2f}× as long as without faults; the median step "
            f"{m['step_median'] / base['step_median']:.2f}× ({m['step_median'] * 1000:.0f} ms against "
            f"{base['step_median'] * 1000:.0f} ms), the median aggregation {m['tat_median'] / base['tat_median']:.2f}×, at "
            f"{m['retransmissions']:,} retransmissions" + ("" if t["valid"] else " (this trial is not valid)") + "."
        )
    return sentences
