"""The network that trials run on, in one line: "8 workers in 2 racks of 4, switchml, 10 Mbit/s, loss 1 %"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from inalab.testbed.plan.settings import TrialSettings

FEW = 3  # names and numbers that are listed; of more the count, or the least and the largest


def described(trials: Sequence[TrialSettings]) -> str:
    """What all of these have in common, and how they differ. Uplinks are named where one is not as fast as the workers' links."""
    jobs = [job for trial in trials for job in trial.each()]
    schemes = list(dict.fromkeys(job.scheme for job in jobs))
    rates = {rate for trial in trials for rate in trial.worker_rates()}
    uplinks = {trial.uplink_rate for trial in trials if trial.racks > 1}
    loss = {100 * job.loss for job in jobs}
    return ", ".join(
        [
            _workers(trials),
            _listed(schemes) if len(schemes) <= FEW else f"{len(schemes)} schemes",
            f"{_numbers(rates)} Mbit/s" + (f" (uplinks {_numbers(uplinks)})" if uplinks - rates else ""),
            f"loss {_numbers(loss)} %" if any(loss) else "no loss",
        ]
    )


def _workers(trials: Sequence[TrialSettings]) -> str:
    """How many, of all jobs together, and in which racks."""
    by_rack, jobs = {tuple(trial.workers_by_rack()) for trial in trials}, {len(trial.each()) for trial in trials}
    sizes, racks = {sum(one) for one in by_rack}, {len(one) for one in by_rack}
    wording = f"{_numbers(sizes)} worker{'s' * (sizes != {1})}"
    if jobs != {1}:
        wording += f" of {_numbers(jobs)} jobs"
    wording += f" in {_numbers(racks)} rack{'s' * (racks != {1})}"
    alike = {size for one in by_rack for size in one}
    return f"{wording} of {_numbers(alike)}" if len(by_rack) == len(alike) == 1 and racks != {1} else wording


def _numbers(values: Iterable[float]) -> str:
    found = sorted(values)
    return _listed([f"{value:g}" for value in found]) if len(found) <= FEW else f"{found[0]:g} to {found[-1]:g}"


def _listed(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
