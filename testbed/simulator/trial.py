"""A trial that is computed: packets of SwitchML and ATP, or what other schemes send as flows."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hosts.collective import Counters
from hosts.messages import Done
from schemes.mlfabric import MLfabricScheme, schedule_of
from schemes.model_server import OneModelServer
from schemes.scheme import Admitted
from switches.atp import EVENTS
from testbed.plan.settings import TrialSettings
from testbed.simulator import costs
from testbed.simulator.flows import carry
from testbed.simulator.mlfabric import ScheduledUpdates
from testbed.simulator.plans import compute_times, elements_of, flows_of, job_of, network_of
from testbed.simulator.simulation import Simulated, Summed, simulate
from testbed.simulator.target import PACKETS, UPDATES
from testbed.simulator.traffic import Traffic
from testbed.simulator.updates import Updates, records
from testbed.trial.job_run import JobRun, together
from testbed.trial.places import place_of
from testbed.trial.validity import queue_problems
from topologies.plan import NetworkPlan


def compute(settings: TrialSettings, seed: int, known: costs.Known) -> dict[str, Any]:
    """What testbed.trial.coordinator.run_trial returns, as far as it is computed: no processors, and of counters ATP's events."""
    plan = settings.plan()
    admitted, each = settings.admitted(plan), settings.each()
    elements = [elements_of(own) for own in each]
    times = [compute_times(own, seed, job.plan.size) for own, job in zip(each, admitted, strict=True)]
    for start, its in zip(settings.starts(), times, strict=True):
        its[:, 0] += start
    lost = numbered = dropped = 0
    switches: dict[str, Any] = {}
    summed: list[Summed] = []
    if all(job.scheme.name in PACKETS for job in admitted):
        found = _packets(settings, seed, plan, admitted, elements, times, known)
        lost, numbered, dropped, summed = found.lost, found.numbered, found.dropped, found.jobs
        if settings.running().name == "atp":
            switches = _counted(plan, found)
    elif admitted[0].scheme.name not in UPDATES:
        summed = [_messages(plan, admitted[0], elements[0], times[0], known)]
    runs = [JobRun(job.plan, own, start, len(each) > 1) for own, job, start in zip(each, admitted, settings.starts(), strict=True)]
    if summed:
        jobs = [_with_sums(*its) for its in zip(runs, elements, times, summed, strict=True)]
    else:
        jobs = [_with_updates(runs[0], plan, admitted[0], elements[0], times[0], known)]
    metrics = together([job.metrics() for job in jobs]) | {
        "loss_achieved": lost / numbered if numbered else 0.0, "loss_packets": numbered,
        "queue_drops": dropped,
    }  # fmt: skip

    def tag(job: JobRun) -> dict[str, Any]:
        return {"job": job.plan.number} if len(jobs) > 1 else {}

    problems = queue_problems(metrics, settings)
    return {
        "metrics": metrics, "valid": not problems, "problems": problems,
        "workers": [tag(job) | asdict(done) for job in jobs for _, done in sorted(job.done.items())],
        "switches": switches, "steps": [tag(job) | record for job in jobs for record in job.steps], "data_sha256": "",
    }  # fmt: skip


def _packets(
    settings: TrialSettings, seed: int, plan: NetworkPlan, admitted: list[Admitted], elements: list[int],
    times: list[NDArray[np.float64]], known: costs.Known,
) -> Simulated:  # fmt: skip
    network = network_of(settings, plan, seed, settings.running().bits_on_wire(settings.k))
    jobs = [job_of(plan, *its) for its in zip(admitted, elements, times, strict=True)]
    return simulate(network, jobs, known.packets)


def _counted(plan: NetworkPlan, found: Simulated) -> dict[str, Any]:
    """What became of each job's packets, by switch, as schemes.atp.Atp.counted has it."""
    return {
        name: {"jobs": [dict(zip(EVENTS, map(int, of_job), strict=True)) for of_job in found.happened[number]]}
        for number, name in enumerate(plan.switches)
    }


def _messages(plan: NetworkPlan, job: Admitted, elements: int, compute: NDArray[np.float64], known: costs.Known) -> Summed:
    """Sums one after the other; what one is like the next one is, where workers come to it alike."""
    transfers = job.scheme.transfers(plan, job.settings, elements)
    assert transfers is not None
    flows, capacities = flows_of(plan, transfers, known.acknowledged)
    workers, steps = compute.shape
    begun, ended = np.zeros((workers, steps)), np.zeros((workers, steps))
    free, had = np.zeros(len(plan.everyone)), {}
    for step in range(steps):
        free[:workers] += compute[:, step]
        begun[:, step] = free[:workers]
        first = float(free[:workers].min())
        late = np.maximum(free - first, 0.0)
        if (key := np.round(late, 12).tobytes()) not in had:
            had[key] = carry(flows, capacities, late, known.message, known.packets.delay).ended
        free = first + had[key]
        ended[:, step] = free[:workers]
    none = np.zeros((workers, steps), np.int64)
    return Summed(begun, ended, np.zeros((workers, steps)), none, none, {})


def _with_sums(run: JobRun, elements: int, compute: NDArray[np.float64], summed: Summed) -> JobRun:
    """The job with its workers' records (hosts.training.trainer) and counters. What only training tells is not there."""
    waited, results = (np.diff(what, axis=1, prepend=0) for what in (summed.waited, summed.results))
    trips = waited / np.maximum(results, 1)
    for rank in range(run.plan.size):
        for step in range(run.settings.steps):
            begun, ended = float(summed.begun[rank, step]), float(summed.ended[rank, step])
            busy = float(compute[rank, step]) - (run.start if step == 0 else 0.0)
            run.steps.append(
                {
                    "step": step, "rank": rank, "begun": begun - busy, "ended": ended, "tat": ended - begun, "busy": busy,
                    "compute": busy, "padding": 0.0, "elements": elements, "rtt": float(trips[rank, step]),
                    "retransmissions": int(summed.retransmissions[rank, step]),
                }
            )  # fmt: skip
        counted = {name: int(values[rank]) for name, values in summed.counters.items()}
        run.done[rank] = Done(rank, "", asdict(Counters(**counted, waited=float(summed.waited[rank, -1]))), [])
    run.steps.sort(key=lambda record: (record["step"], record["rank"]))
    return run


def _with_updates(
    run: JobRun, plan: NetworkPlan, job: Admitted, elements: int, compute: NDArray[np.float64], known: costs.Known
) -> JobRun:  # fmt: skip
    """The job with the records of workers that train asynchronously. Nothing is counted."""
    traffic, scheme = Traffic(plan, known), job.scheme
    if isinstance(scheme, MLfabricScheme):
        schedule = schedule_of(place_of(plan, job, job.plan.servers[0]))
        updates: Updates = ScheduledUpdates(traffic, job, elements, compute, schedule)
    else:
        assert isinstance(scheme, OneModelServer)
        updates = Updates(traffic, job, elements, compute, scheme.staleness(job.settings))
    run.steps = sorted(records(updates.run(), elements, compute), key=lambda record: (record["step"], record["rank"]))
    run.done = {rank: Done(rank, "", asdict(Counters()), []) for rank in range(run.plan.size)}
    return run
