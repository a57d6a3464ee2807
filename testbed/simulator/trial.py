"""A trial that is computed: packets of SwitchML and ATP, or other schemes' messages."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.collective import Counters
from inalab.hosts.messages import Done, Step
from inalab.schemes.scheme import Admitted, Simulation
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.simulator import costs
from inalab.testbed.simulator.flows import FairTraffic
from inalab.testbed.simulator.gloo import GlooRing
from inalab.testbed.simulator.mlfabric import ScheduledUpdates
from inalab.testbed.simulator.plans import begins_at_zero, job_of, layers_of, network_of, steps_of
from inalab.testbed.simulator.simulation import Simulated, Summed, simulate
from inalab.testbed.simulator.steps import Steps
from inalab.testbed.simulator.sums import Sums
from inalab.testbed.simulator.tcp import TcpTraffic
from inalab.testbed.simulator.traffic import Traffic
from inalab.testbed.simulator.updates import ELEMENT, Updates, records
from inalab.testbed.trial.job_run import JobRun, runs_of, together
from inalab.testbed.trial.places import place_of
from inalab.testbed.trial.validity import queue_problems, recorded
from inalab.topologies.plan import NetworkPlan


def compute(settings: TrialSettings, seed: int, known: costs.Known) -> dict[str, Any]:
    """What testbed.trial.outcome returns, as far as it is computed: no processors, and of counters ATP's events."""
    plan = settings.plan()
    admitted, each = settings.admitted(plan), settings.each()
    layers = [[elements for elements, _ in layers_of(own)] for own in each]
    steps = [steps_of(own, seed, job.plan.size, at) for own, job, at in zip(each, admitted, settings.starts(), strict=True)]
    runs = runs_of(settings, admitted)
    lost = numbered = dropped = 0
    switches: dict[str, Any] = {}
    if all(job.scheme.simulated().of_packets for job in admitted):
        found = _packets(settings, seed, plan, admitted, layers, steps, known)
        lost, numbered, dropped = found.lost, found.numbered, found.dropped
        if events := settings.running().schemes[0].events:
            switches = _counted(plan, events, found)
        jobs = [_with_sums(run, sum(its), own, of) for run, its, own, of in zip(runs, layers, steps, found.jobs, strict=True)]
    else:
        traffic = TcpTraffic(plan, known, seed) if known.over_tcp else FairTraffic(plan, known)
        if admitted[0].scheme.simulated() is Simulation.UPDATES:
            own = sum(layers[0]), steps[0].compute, begins_at_zero(each[0]), seed
            jobs = [_with_updates(runs[0], traffic, admitted[0], *own)]
        else:
            summed = _messages(traffic, admitted[0], layers[0], steps[0])
            jobs = [_with_sums(runs[0], sum(layers[0]), steps[0], summed)]
    metrics = together([job.metrics() for job in jobs]) | {
        "loss_achieved": lost / numbered if numbered else 0.0, "loss_packets": numbered,
        "queue_drops": dropped,
    }  # fmt: skip

    def tag(job: JobRun) -> dict[str, Any]:
        return {"job": job.plan.number} if len(jobs) > 1 else {}

    problems = queue_problems(metrics, settings)
    return {
        "metrics": metrics, **recorded(problems),
        "workers": [tag(job) | asdict(done) for job in jobs for _, done in sorted(job.done.items())],
        "switches": switches, "steps": [tag(job) | record for job in jobs for record in job.records], "data_sha256": "",
    }  # fmt: skip


def _packets(
    settings: TrialSettings, seed: int, plan: NetworkPlan, admitted: list[Admitted], layers: list[list[int]], steps: list[Steps],
    known: costs.Known,
) -> Simulated:  # fmt: skip
    network = network_of(settings, plan, seed, settings.running().schemes[0].bits_on_wire(settings.k))
    jobs = [job_of(plan, *its) for its in zip(admitted, layers, steps, strict=True)]
    return simulate(network, jobs, known.packets)


def _counted(plan: NetworkPlan, events: tuple[str, ...], found: Simulated) -> dict[str, Any]:
    """What became of each job's packets, by switch, as the scheme's `counted` has it."""
    return {
        name: {"jobs": [dict(zip(events, map(int, of_job), strict=True)) for of_job in found.happened[number]]}
        for number, name in enumerate(plan.switches)
    }


def _messages(traffic: Traffic, job: Admitted, layers: list[int], steps: Steps) -> Summed:
    """Sums by messages, one after the other."""
    if job.scheme.native:
        begun, ended = GlooRing(traffic, ELEMENT * sum(layers), steps).run()
    else:
        transfers = {elements: job.scheme.transfers(traffic.plan, job.settings, elements) for elements in set(layers)}
        begun, ended = Sums(traffic, [its for elements in layers if (its := transfers[elements]) is not None], steps).run()
    none = np.zeros(begun.shape, np.int64)
    return Summed(begun, ended, np.zeros(begun.shape), none, none, {})


def _with_sums(run: JobRun, elements: int, steps: Steps, summed: Summed) -> JobRun:
    """The job with its workers' records (hosts.training.trainer) and counters. What only training tells is not there."""
    for rank in range(run.plan.size):
        run.steps += [_step(rank, number, elements, steps, summed) for number in range(steps.steps)]
        counted = {name: int(values[rank]) for name, values in summed.counters.items()}
        run.done[rank] = Done(rank, "", Counters(**counted, waited=float(summed.waited[rank].max())), [])
    run.steps.sort(key=lambda step: (step.number, step.rank))
    return run


def _step(rank: int, number: int, elements: int, steps: Steps, summed: Summed) -> Step:
    """A worker's step of that number, which has the sums of all layers."""
    plan, its = steps.passes[rank][number], slice(number * steps.layers, (number + 1) * steps.layers)
    begun, ended, busy = summed.begun[rank, its], summed.ended[rank, its], float(steps.compute[rank, number])
    before = slice(max(its.start - steps.layers, 0), its.start)

    def during(counts: NDArray[Any]) -> Any:
        return counts[rank, its].max() - counts[rank, before].max(initial=0)

    times = zip(plan.begins, plan.forward, begun[::-1].tolist(), ended[::-1].tolist(), strict=True)
    return Step(
        number=number, rank=rank, begun=plan.begun, ended=float(ended.max()), busy=busy, compute=busy, padding=0.0,
        tat=float(ended.max() - begun[0]), elements=elements, retransmissions=int(summed.retransmissions[rank, its].max()),
        rtt=float(during(summed.waited) / max(during(summed.results), 1)),
        layers=[list(layer) for layer in times] if steps.layers > 1 else None,
    )  # fmt: skip


def _with_updates(
    run: JobRun, traffic: Traffic, job: Admitted, elements: int, compute: NDArray[np.float64], zero: bool, seed: int
) -> JobRun:  # fmt: skip
    """The job with the records of workers that train asynchronously. Nothing is counted."""
    scheme = job.scheme
    if schedule := scheme.update_schedule(place_of(traffic.plan, job, job.plan.servers[0], seed)):
        updates: Updates = ScheduledUpdates(traffic, job, elements, compute, schedule)
    else:
        updates = Updates(traffic, job, elements, compute, scheme.staleness(job.settings))
    run.steps = sorted(records(updates.run(zero), elements, compute), key=lambda step: (step.number, step.rank))
    run.done = {rank: Done(rank, "", Counters(), []) for rank in range(run.plan.size)}
    return run
