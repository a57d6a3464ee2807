"""Which faults a trial can have, and which jobs survive them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from inalab.hosts.training.pipeline import BLOCKING, UNBOUNDED
from inalab.schemes import registry
from inalab.schemes.scheme import Admitted
from inalab.testbed.plan.faults import DISORDER, Fault, refuse_unknown
from inalab.testbed.plan.rates import FIXED
from inalab.topologies.plan import NetworkPlan

if TYPE_CHECKING:  # which has these rules checked
    from inalab.testbed.plan.settings import TrialSettings

LOSING = ("down", "loss")
RETURNING = ("restart", "cut")  # that only jobs whose members change survive, whomever they happen to


def check_faults(settings: TrialSettings, plan: NetworkPlan, jobs: Sequence[Admitted]) -> None:
    """Raise ValueError for faults that cannot be, or that no job survives, and for jobs whose members cannot change."""
    refuse_unknown(settings.faults, plan)
    if settings.elastic:
        for wrong in _inelastic(settings, jobs):
            raise ValueError(wrong)
    unlimited = {name for link in plan.links if link.rate is None for name in (link.name, link.lower)}
    for fault in settings.faults:
        for wrong in _impossible(fault, settings, jobs, unlimited):
            raise ValueError(wrong)
        if not settings.elastic and (remedy := _ends(fault, plan, jobs)):
            raise ValueError(f"fault `{fault}` ends the job: set elastic=yes, {remedy}")


def _impossible(fault: Fault, settings: TrialSettings, jobs: Sequence[Admitted], unlimited: set[str]) -> Iterator[str]:
    """Why a fault cannot be as the other settings are."""
    if fault.what in LOSING and settings.loss:
        yield "loss and faults of links cannot be set together: both are decided by the link's switch"
    if fault.what in DISORDER and settings.disorder():
        yield "disorder and faults that disturb links cannot be set together: both are decided by the link's switch"
    if fault.what == "rate" and settings.changing != FIXED:
        yield f"fault `{fault}`: rates are changing ({settings.changing}) already; leave one of both out"
    if fault.what == "rate" and fault.whom in unlimited:
        yield f"fault `{fault}`: the rate of {fault.whom} is not limited, and so cannot change"
    if fault.what == "slow" and len(jobs) > 1:
        yield "slow is a fault of one job alone: leave jobs out, or set straggler"
    if fault.what == "slow" and settings.pipeline in UNBOUNDED:
        yield f"slow is not a fault of pipeline {settings.pipeline}: set straggler"


def _ends(fault: Fault, plan: NetworkPlan, jobs: Sequence[Admitted]) -> str:
    """What else than changing members would help where a fault ends a job; empty where it does not."""
    if fault.what in RETURNING:
        return "so that it goes on meanwhile"
    outlived = [host.name for job in jobs for host in job.plan.hosts if job.scheme.outlives_workers]
    if fault.what not in ("die", "hang") or fault.lasts is not None or fault.whom in outlived:
        return ""
    if fault.whom == "any server" or fault.whom in [host.name for host in plan.servers]:
        replaced = jobs[0].scheme.spare_servers(jobs[0].settings)
        return "" if replaced else "or choose a scheme with a replica of its server, as mlfabric.distance=1"
    return "so that the others go on"


def _inelastic(settings: TrialSettings, jobs: Sequence[Admitted]) -> Iterator[str]:
    """Why members cannot change."""
    (job, *others) = jobs
    if others:
        yield "elastic is of one job alone: leave jobs out"
    if not job.scheme.elastic(job.settings):
        yield f"the members of a job of scheme {job.scheme.name} do not change: choose another scheme"
    if settings.pipeline != BLOCKING:
        yield f"elastic has no pipeline {settings.pipeline}: set pipeline={BLOCKING}"
    if settings.measure_error:
        yield "elastic has no measure_error: leave it out"
    if job.scheme.program and job.scheme.most_jobs(job.settings) < 2:
        yield f"slots is {settings.chosen_slots()}: a change of members needs memory for two jobs: set fewer"
    if settings.fallback is not None:
        other = registry.find(settings.fallback)
        if other.program or other.servers(other.Settings()) or not other.driven or not other.elastic(other.Settings()):
            yield f"fallback is {settings.fallback}: choose a scheme that needs neither switches nor servers, as ring"
        if not job.scheme.program:
            yield f"scheme {job.scheme.name} needs no switch: leave fallback out"
