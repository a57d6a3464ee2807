"""What a trial measured, as trials.jsonl has it: of its jobs, of its switches, and whether that is valid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from inalab.schemes.scheme import Admitted
from inalab.switches import disorder
from inalab.switches import loss as losses
from inalab.switches.control import Control
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.trial.job_run import JobRun, together
from inalab.testbed.trial.validity import Problem, Reason, judge, recorded
from inalab.topologies.plan import LinkPlan, NetworkPlan


@dataclass(frozen=True)
class Counted:
    """What a trial's switches counted: by switch, and the packets that links lost, of those that losses were drawn for."""

    switches: dict[str, Any]
    lost: int
    passed: int
    pauses: int
    held_back: int = 0
    doubled: int = 0


def watched_links(plan: NetworkPlan, jobs: Sequence[JobRun]) -> dict[str, list[LinkPlan]]:
    """The links whose bytes a trial records, by the metric's name: above switches, servers and workers."""
    lower = {
        "uplink_bytes": list(plan.switches),
        "server_bytes": [server.name for server in plan.servers],
        "worker_bytes": [host.name for job in jobs for host in job.plan.hosts],
    }
    return {kind: plan.links_above(names) for kind, names in lower.items()}


def count(settings: TrialSettings, plan: NetworkPlan, admitted: Sequence[Admitted], controls: Mapping[str, Control]) -> Counted:
    """Counters of all switches: per port, losses per link direction, packets turned away, and what the scheme counts."""
    running = settings.running()
    own = [job for job in admitted if job.scheme in running.schemes and not settings.elastic]  # whose numbers and trees stay
    switches: dict[str, Any] = {}
    lost = passed = pauses = held = doubled = 0
    for name, control in controls.items():
        switches[name] = {"ports": control.ports(), **running.counted(control, plan, name, own)}
        pauses += control.pauses()
        if settings.disorderly:
            its_held, its_doubled = disorder.counted(control)
            held, doubled = held + its_held, doubled + its_doubled
        for a in plan.switches[name].attachments:
            if a.upper and settings.loss and plan.loses(a.link):
                its_lost, its_passed = losses.counted(control, a.port)
                lost, passed = lost + its_lost, passed + its_passed
    return Counted(switches, lost, passed, pauses, held, doubled)


def outcome(
    settings: TrialSettings, jobs: list[JobRun], counted: Counted, started: float, measured: Mapping[str, Any]
) -> dict[str, Any]:
    """The trial's result. `measured` are metrics beside those of the jobs and the switches; those that are empty are left out."""
    for job in jobs:
        job.finish(started)
    numbered, running = counted.lost + counted.passed, settings.running()
    metrics = together([job.metrics() for job in jobs]) | {
        "loss_achieved": counted.lost / numbered if numbered else 0.0,
        "loss_packets": numbered,
        "queue_drops": sum(_drops(switch) for switch in counted.switches.values()),
    }
    empty: tuple[Any, ...] = (None, [])
    metrics |= {key: value for key, value in measured.items() if value not in empty}
    own = {"pauses": counted.pauses, "held_back": counted.held_back, "doubled": counted.doubled}
    metrics |= {name: number for name, number in own.items() if number}
    metrics |= running.metrics(list(counted.switches.values()))
    problems = judge(metrics, settings)
    problems += [Problem(Reason.SUM, job.named(job.wrong)) for job in jobs if job.wrong]
    died = [job.named(how) for job in jobs for how in [*job.lost.values(), *job.servers_lost]]
    problems += [Problem(Reason.DIED, how) for how in died]

    def tag(job: JobRun) -> dict[str, Any]:
        return {"job": job.plan.number} if len(jobs) > 1 else {}

    return {
        "metrics": metrics,
        **recorded(problems),
        "workers": [tag(job) | asdict(done) for job in jobs for _, done in sorted(job.done.items())],
        "switches": counted.switches,
        "steps": [tag(job) | record for job in jobs for record in job.records],
        "data_sha256": jobs[0].data,
    }


def _drops(switch: dict[str, Any]) -> int:
    """Packets that a switch dropped where it was not requested, as far as its ports tell, and at least the missing copies."""
    counted: int = sum(p.get(kind, 0) for p in switch["ports"].values() for kind in ("queue_drops", "ring_drops", "send_errors"))
    return max(counted, int(switch.get("copies_missing", 0)))
