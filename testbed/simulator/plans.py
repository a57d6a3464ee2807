"""What a trial's settings are to the simulator: networks and jobs of packets, or ways of messages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.ethernet import bits_on_wire
from inalab.hosts.training.layers import outline
from inalab.hosts.training.pace import Pace
from inalab.hosts.training.pipeline import LAYERED
from inalab.hosts.training.workloads import Aggregation, find
from inalab.schemes.scheme import Admitted, Conditions, Simulation
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.simulator.simulation import Job, Link, Network
from inalab.testbed.simulator.steps import Steps
from inalab.testbed.trial.configuration import QUEUE_DEPTH
from inalab.topologies.plan import LinkPlan, NetworkPlan

UNLIMITED = 1e18  # bits a second: of links that have no rate
BIT = 1e-6  # seconds that a bit takes at 1 Mbit/s


def layers_of(settings: TrialSettings) -> list[tuple[int, float]]:
    """Elements and share of the compute time of each layer whose gradient is summed by itself, front first."""
    return outline(find(settings.workload), settings.pipeline in LAYERED)


def steps_of(settings: TrialSettings, seed: int, workers: int, start: float) -> Steps:
    """What a job's workers compute, from then on."""
    compute = compute_times(settings, seed, workers)
    if settings.pipeline not in LAYERED:
        return Steps(compute, start)
    forward, shares = settings.forward_share, [share for _, share in layers_of(settings)]
    return Steps(compute, start, settings.pipeline, [forward * s for s in shares], [(1 - forward) * s for s in shares])


def begins_at_zero(settings: TrialSettings) -> bool:
    """Whether the first model is zeros, which are not sent."""
    return isinstance(find(settings.workload), Aggregation)


def compute_times(settings: TrialSettings, seed: int, workers: int) -> NDArray[np.float64]:
    """Seconds of virtual compute time by worker and step, as the workers' pace has it."""
    paces = [Pace(settings.compute_ms, seed, rank, settings.straggler_model()) for rank in range(workers)]
    return np.array([[pace.seconds(step) for step in range(settings.steps)] for pace in paces])


def network_of(settings: TrialSettings, plan: NetworkPlan, seed: int, bits: int) -> Network:
    """The trial's network, where a packet with a vector has so many bits on a link. Links without a rate take no time."""
    jobs, scheme, conditions = settings.admitted(plan), settings.running().schemes[0], Conditions(settings.queue)
    short = bits_on_wire(scheme.header)

    def seconds(size: int, link: LinkPlan) -> float:
        """That so many bits take."""
        return size * BIT / link.rate if link.rate else 0.0

    links = [Link(seconds(bits, link), seconds(short, link), link.number, seconds(8, link)) for link in plan.links]
    depth = settings.queue or max(QUEUE_DEPTH, sum(job.scheme.queue(job) for job in jobs))

    def pace(link: LinkPlan, up: bool) -> float:
        """Seconds between two packets that a switch sends into a link; 0 where there is no limit, or a host sends."""
        from_host = up and link.lower not in plan.switches
        packets = 0 if from_host or link.rate is None else scheme.pace(link.rate, jobs, conditions)
        return 1 / packets if packets else 0.0

    paces = np.array([[pace(link, up) for up in (True, False)] for link in plan.links])
    return Network(
        links, len(plan.switches), settings.loss_model(), seed, depth, paces if paces.any() else None,
        scheme.marks_from(jobs, conditions),
    )  # fmt: skip


def job_of(plan: NetworkPlan, job: Admitted, elements: Sequence[int], steps: Steps) -> Job:
    """A job whose packets are simulated: its workers, its servers, how its switches are joined, and the elements of its layers."""
    numbers = {name: number for number, name in enumerate(plan.switches)}
    links = {(link.lower, link.upper): link.number for link in plan.links}
    used = {plan.racks[host.rack].name for host in job.plan.everyone}
    used |= {pod.name for pod in plan.pods if used & set(plan.below(pod.name))}
    above = {}
    for name in used:
        if (upper := plan.above(name, job.plan.number)) and (name, upper.name) in links:
            above[numbers[name]] = numbers[upper.name], links[name, upper.name]
    places = [(host.home, host.name) for host in job.plan.everyone]
    switches, hosts = [numbers[home] for home, _ in places], [links[name, home] for home, name in places]
    s, size, how = job.settings, job.plan.size, job.scheme.simulated()
    message = s.message if how is Simulation.QUEUE_PAIRS else 0
    asks = message == 0 and s.recovery == "ask"  # messages have timers alone
    chunks = [-(-n // (s.k * max(1, message))) for n in elements]
    shape = switches[:size], hosts[:size], above, chunks, s.slots, steps, s.scaling is None, asks
    if how is not Simulation.AGGREGATORS:
        return Job(*shape, message=message)
    servers = list(zip(switches[size:], hosts[size:], strict=True))
    return Job(*shape, servers, s.aggregators, s.congestion)


def way_of(plan: NetworkPlan, source: int, destination: int) -> list[int]:
    """The links from one of the plan's hosts to another, by their numbers, as directions: 2 * link + direction."""
    return [2 * link + (not up) for link, up in plan.path(plan.everyone[source], plan.everyone[destination])]


def capacities_of(plan: NetworkPlan) -> NDArray[np.float64]:
    """Of the plan's links in bits a second, by direction."""
    return np.repeat(np.array([link.rate * 1e6 if link.rate else UNLIMITED for link in plan.links]), 2)
