"""A job of a running trial: what its workers say, and what becomes of that."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import mean, median
from typing import Any

from inalab.hosts.messages import Done, Failure, FromWorker, Hello, Step
from inalab.hosts.training.stragglers import Slowing
from inalab.hosts.training.trainer import TrainingSettings
from inalab.schemes.scheme import Admitted
from inalab.testbed.plan.faults import drawn
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.record import steps
from inalab.testbed.trial.sampled import Sampled, compared
from inalab.topologies.jobs import JobPlan

SUMS = ("elements", "sampled", "ate_per_second", "retransmissions", "queries", "packets_sent")  # over jobs, where there are several
HIGHEST, LOWEST = ("duration", "delay_max", "distance_max"), ("padding_min", "single_from")


@dataclass
class JobRun:
    """A job's hosts, its own settings (as of a trial of one job), when it starts, and what was heard of it so far."""

    plan: JobPlan
    settings: TrialSettings
    start: float
    several: bool  # jobs on the network: then messages name them
    steps: list[Step] = field(default_factory=list)
    done: dict[int, Done] = field(default_factory=dict)  # by rank
    outlives_workers: bool = False  # the others go on when one of them dies
    failures: dict[int, Failure] = field(default_factory=dict)  # by rank
    lost: dict[int, str] = field(default_factory=dict)  # likewise: how a worker died without which the others have gone on
    servers_lost: list[str] = field(default_factory=list)  # how servers died without which the job has gone on
    data: str = ""  # the hash of what is trained on
    sampled: int = 0  # elements of sums that were compared
    wrong: str = ""  # what is wrong with the first that was

    def hear(self, message: FromWorker) -> None:
        """Take in a message of a worker."""
        match message:
            case Hello():
                self.data = message.data
            case Step():
                self.steps.append(message)
            case Done():
                self.done[message.rank] = message
            case Failure():
                self.failures[message.rank] = message

    def die(self, rank: int, text: str) -> None:
        """A worker has died. The job has failed, unless it outlives its workers, and one is left."""
        if self.outlives_workers and not self.failures and len(self.lost) + 1 < self.plan.size:
            self.lost[rank] = text
        else:
            self.fail(rank, text)

    def fail(self, rank: int, text: str) -> None:
        """A worker has failed and did not say why; what it did say before stays."""
        self.failures.setdefault(rank, Failure(self.plan.number, rank, text))

    def silent(self) -> set[int]:
        """Ranks that have told neither their results nor how they failed."""
        return set(range(self.plan.size)) - set(self.done) - set(self.failures) - set(self.lost)

    def named(self, text: str) -> str:
        """A message, with the job that it is about where there are several."""
        return f"job {self.plan.number}: {text}" if self.several and f"job {self.plan.number}" not in text else text

    def reason(self) -> str:
        """Why the workers that are left are to give up."""
        return self.named(next(iter([*self.lost.values(), *(failure.text for failure in self.failures.values())])))

    def why(self) -> str:
        """Who died, if someone did, and what the others say of it: the one of them that knows best whom it misses."""
        died = [Failure(self.plan.number, rank, how) for rank, how in self.lost.items()]
        died += [failure for failure in self.failures.values() if not failure.incomplete]
        others = [failure for failure in self.failures.values() if failure.incomplete]
        dead = {failure.rank for failure in died}
        # who misses one of the dead, not who only misses itself; and the fewer it names, the more it knows
        others.sort(key=lambda f: (dead.isdisjoint(f.missing), f.rank in f.missing, len(f.missing) or self.plan.size))
        return self.named("; ".join(dict.fromkeys(failure.text for failure in [*died, *others[:1]])))

    def conclude(self, members: Sequence[int]) -> None:
        """The members have changed, and these were the last. A step that was begun anew without some counts as it was at last."""
        last = {step.number: step.members for step in self.steps}
        latest = {(step.number, step.rank): step for step in self.steps if step.members == last[step.number]}
        self.steps = list(latest.values())
        self.done = {rank: done for rank, done in self.done.items() if rank in members}

    def finish(self, started: float) -> None:
        """Order the steps, compare what was sampled of their sums, and count all times from the trial's start."""
        for scheme in {step.scheme or self.settings.scheme for step in self.steps}:
            self._compare(scheme)
        self.steps = sorted((step.since(started) for step in self.steps), key=lambda step: (step.number, step.rank))
        for rank, done in self.done.items():
            timeline = [[round(when - started, 6), *counts] for when, *counts in done.timeline]
            self.done[rank] = replace(done, timeline=timeline)

    def _compare(self, scheme: str) -> None:
        """What was sampled of the sums by this scheme."""
        settings = self.settings.changed(scheme=scheme, faults=(), fallback=None, elastic=False)
        steps = [step for step in self.steps if (step.scheme or self.settings.scheme) == scheme]
        samples = [Sampled(step.number, step.rank, step.sample) for step in steps if step.sample]
        sizes = {step.number: len(step.members) for step in steps if step.members is not None}
        _, sampled, wrong = compared(samples, sizes or self.plan.size, settings.of_scheme(), settings.scheme_settings())
        self.sampled, self.wrong = self.sampled + sampled, self.wrong or wrong

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """The steps as trials.jsonl has them, once the job is finished."""
        return [step.recorded() for step in self.steps]

    def _counted(self, what: str) -> int:
        """By all workers together."""
        return sum(int(getattr(done.counters, what)) for done in self.done.values())

    def metrics(self) -> dict[str, Any]:
        """What was measured at the job's workers."""
        groups = steps.exchanges(self.records)
        sums = [steps.aggregation_time(group) for group in groups]
        digests = {done.digest for done in self.done.values()}
        elements = self.steps[0].elements
        measured: dict[str, Any] = {
            "duration": max(step.ended for step in self.steps) - self.start,
            "elements": elements,
            "tat_median": median(sums),
            "tat_mean": mean(sums),
            "step_median": median([steps.duration(group) for group in groups]),
            "period_median": median(steps.periods(self.records)),
            **steps.shares(groups),
            "rtt": median([step.rtt for step in self.steps]),
            "retransmissions": self._counted("retransmissions"),
            "queries": self._counted("queries"),
            "packets_sent": self._counted("sent"),
            "handled": self._counted("handled"),
            "padding_min": min(step.padding for step in self.steps),
            "model_digest": digests.pop() if len(digests) == 1 else "",
            "ate_per_second": elements / median(sums),
        }
        if self.sampled:
            measured["sampled"] = self.sampled
        if evaluated := [step for step in self.steps if step.accuracy is not None]:
            measured |= {"final_accuracy": evaluated[-1].accuracy, "final_test_loss": evaluated[-1].test_loss}
        losses = [(step.number, value) for step in self.steps for value in (step.train_loss, step.test_loss)]
        if diverged := [number for number, value in losses if value is not None and not math.isfinite(value)]:
            measured["diverged"] = min(diverged) + 1
        if delays := [step.delay for step in self.steps if step.delay is not None]:
            measured |= {"delay_mean": mean(delays), "delay_max": max(delays)}
        updates = [step.update for step in self.steps if step.update]
        if distances := [update.distance for update in updates if update.distance is not None]:
            measured["distance_max"] = max(distances)
        bounded = self.settings.of_scheme().distance_bound(self.settings.scheme_settings()) is not None
        single = [update.applied for update in updates if update.applied is not None and update.distance is None]
        if bounded and single:
            measured["single_from"] = min(single)
        if errors := [step.error for step in self.steps if step.error is not None]:
            measured["error_median"] = median(errors)
        return measured


def together(jobs: list[dict[str, Any]]) -> dict[str, Any]:
    """The metrics of all jobs of a trial: sums, extremes and means over them, and each job's own under `jobs`."""
    if len(jobs) == 1:
        return dict(jobs[0])
    measured: dict[str, Any] = {}
    for key in (key for key in jobs[0] if all(key in job for job in jobs)):
        values = [job[key] for job in jobs]
        if key == "model_digest":
            measured[key] = "+".join(values) if all(values) else ""
        else:
            pick = sum if key in SUMS else max if key in HIGHEST else min if key in LOWEST else mean
            measured[key] = pick(values)
    return measured | {"jobs": jobs}


def runs_of(settings: TrialSettings, admitted: Sequence[Admitted]) -> list[JobRun]:
    """The jobs of a trial."""
    whole = zip(admitted, settings.each(), settings.starts(), strict=True)
    return [
        JobRun(job.plan, own, start, len(admitted) > 1, outlives_workers=job.scheme.outlives_workers) for job, own, start in whole
    ]


def training(settings: TrialSettings, seed: int) -> TrainingSettings:
    """What the workers of a job train, by its own settings."""
    s = settings
    return TrainingSettings(
        s.workload,
        s.steps,
        seed,
        s.compute_ms,
        s.evaluate_every,
        s.straggler_model(),
        s.batch,
        s.learning_rate,
        s.measure_error,
        s.pipeline,
        s.forward_share,
        s.momentum,
        s.racks,
        tuple(slowings(s, seed)),
    )


def slowings(settings: TrialSettings, seed: int) -> Iterator[Slowing]:
    """Those among the faults of a trial of one job."""
    if any(fault.what == "slow" for fault in settings.faults):
        plan = settings.plan()
        ranks = {host.name: rank for rank, host in enumerate(plan.hosts)}
        for fault in drawn(settings.faults, plan, seed):
            if fault.what == "slow":
                assert fault.value is not None
                yield Slowing(ranks[fault.whom], fault.value, fault.at, fault.step, fault.lasts or math.inf)
