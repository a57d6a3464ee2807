"""The network that trials run on, in one line: "8 workers in 2 racks of 4, switchml, 10 Mbit/s, loss 1 %"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from inalab.testbed.plan.settings import TrialSettings

FEW = 3  # names and numbers that are listed; of more the count, or the least and the largest


def described(trials: Sequence[TrialSettings]) -> str:
    """What all of these have in common, and how they differ."""
    jobs = [job for trial in trials for job in trial.each()]
    schemes = list(dict.fromkeys(job.scheme for job in jobs))
    loss = {100 * job.loss for job in jobs}
    return ", ".join(
        [
            _workers(trials),
            _listed(schemes) if len(schemes) <= FEW else f"{len(schemes)} schemes",
            f"{_numbers({job.host_rate for job in jobs})} Mbit/s",
            f"loss {_numbers(loss)} %" if any(loss) else "no loss",
        ]
    )


def _workers(trials: Sequence[TrialSettings]) -> str:
    """How many, of all jobs together, and in which racks."""
    sizes, jobs = {sum(trial.job_sizes()) for trial in trials}, {len(trial.job_sizes()) for trial in trials}
    racks = {trial.racks for trial in trials}
    told = f"{_numbers(sizes)} worker{'s' * (sizes != {1})}"
    if jobs != {1}:
        told += f" of {_numbers(jobs)} jobs"
    told += f" in {_numbers(racks)} rack{'s' * (racks != {1})}"
    alike = len(racks) == len(sizes) == 1 and racks != {1} and not min(sizes) % min(racks)
    return f"{told} of {min(sizes) // min(racks)}" if alike else told


def _numbers(values: Iterable[float]) -> str:
    found = sorted(values)
    return _listed([f"{value:g}" for value in found]) if len(found) <= FEW else f"{found[0]:g} to {found[-1]:g}"


def _listed(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
