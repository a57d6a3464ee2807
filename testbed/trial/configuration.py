"""What the switches of a network are told before packets flow: queues, forwarding, the jobs' schemes, losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from inalab.schemes.scheme import Admitted, Conditions
from inalab.switches.commands import Commands
from inalab.switches.disorder import Disorder, set_disorder
from inalab.switches.loss import Loss, link_seed, set_loss
from inalab.testbed.plan.settings import TrialSettings
from inalab.topologies.plan import NetworkPlan

QUEUE_DEPTH = 1024  # packets of a port, at least; BMv2 has 64 and drops in silence


def commands_for(settings: TrialSettings, plan: NetworkPlan, seed: int) -> dict[str, list[str]]:
    """What each switch of a trial's network is told."""
    conditions = Conditions(settings.queue, settings.background > 0)
    jobs, later = settings.admitted(plan), settings.elastic
    return network_commands(
        plan, jobs, settings.loss_model(), seed, conditions, settings.latency, later, settings.disorder()
    )  # fmt: skip


def network_commands(
    plan: NetworkPlan, jobs: Sequence[Admitted], loss: Loss | None, seed: int, conditions: Conditions | None = None,
    latency: float = 0.0, later: bool = False, disorder: Disorder | None = None,
) -> dict[str, list[str]]:  # fmt: skip
    """What each switch of a network is told: see switch_commands."""
    return {name: switch_commands(plan, name, jobs, loss, seed, conditions, latency, later, disorder) for name in plan.switches}


def switch_commands(
    plan: NetworkPlan, name: str, jobs: Sequence[Admitted], loss: Loss | None, seed: int, conditions: Conditions | None = None,
    latency: float = 0.0, later: bool = False, disorder: Disorder | None = None,
) -> list[str]:  # fmt: skip
    """Queues, forwarding, the jobs that the switch takes part in, and the loss and disorder of the links whose upper end it is.

    The ports' queues hold all that can come unless their depth is set. `latency` is in ms, of what leaves a port. Jobs that are
    admitted `later` are so while packets flow (testbed.trial.admission).
    """
    schemes = list(dict.fromkeys(job.scheme for job in jobs))
    streams = sum(job.scheme.program is not None for job in jobs)
    conditions = replace(conditions or Conditions(), mixed=0 < streams < len(jobs), streams=streams)
    deepest = max(QUEUE_DEPTH, sum(job.scheme.queue(job) for job in jobs))
    through_root = {host.rank: job.plan.number for job in jobs if job.scheme.program for host in job.plan.everyone}
    commands = Commands()
    commands.add(f"set_queue_depth {conditions.queue or deepest}")
    plan.forward(commands, name, through_root)
    if latency:
        commands.add(f"set_queue_delay {round(1000 * latency)}")
    for a in plan.switches[name].attachments:
        if delay := plan.links[a.link].delay:
            commands.add(f"set_queue_delay {round(1000 * (latency + delay))} {a.port}")
    for scheme in schemes:
        tell = scheme.configure if later else scheme.commands
        tell(commands, plan, name, [job for job in jobs if job.scheme is scheme], conditions)
    for link in plan.links:
        if link.upper != name or not plan.loses(link.number):
            continue
        for direction in (0, 1) if loss else ():
            assert loss is not None
            commands.add(*set_loss(direction, link.upper_port, loss, link_seed(seed, link.number, direction)))
        if disorder:
            commands.add(*set_disorder(link.upper_port, disorder, seed, link.number))
    return commands.lines
