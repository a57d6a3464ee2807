"""All switches of a plan, offline, with the commands of a trial: a frame that a host sends is carried on until it is at hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from inalab.schemes import registry
from inalab.schemes.scheme import Admitted
from inalab.switches.embedded.offline import OfflineSwitch
from inalab.switches.loss import Loss
from inalab.switches.sizes import MAX_PORTS
from inalab.testbed.trial.configuration import switch_commands
from inalab.topologies.jobs import JobPlan
from inalab.topologies.plan import HostPlan, NetworkPlan

Arrival = tuple[str, bytes]  # at a host


class Bag(Protocol):
    """Packets on their way, any of which may come next."""

    on_the_way: list[tuple[str, int, bytes]]

    def deliver(self, position: int, keep: bool = False) -> None: ...

    def forge(self, n: int) -> None: ...


def disturb(net: Bag, action: str, n: int) -> None:
    """Something happens to the packets on their way, if there are any; `n` chooses which."""
    if not net.on_the_way:
        return
    if action == "forge":
        net.forge(n)
    elif action == "lose":
        net.on_the_way.pop(n % len(net.on_the_way))
    else:
        net.deliver(0 if action == "first" else n % len(net.on_the_way), keep=action == "twice")


def admitted(scheme: str, jobs: list[JobPlan], **settings: Any) -> list[Admitted]:
    """Jobs of one scheme, all set to the same."""
    found = registry.find(scheme)
    return [Admitted(job, found, found.Settings(**settings)) for job in jobs]


class Fabric:
    """Jobs on the switches of a plan."""

    def __init__(self, plan: NetworkPlan, program: Path, jobs: list[Admitted], loss: Loss | None = None, seed: int = 1) -> None:
        self.plan, self.jobs = plan, [job.plan for job in jobs]
        self._boot = {name: (program, switch_commands(plan, name, jobs, loss, seed)) for name in plan.switches}
        self.switches = {name: self.booted(name) for name in plan.switches}

    def booted(self, name: str) -> OfflineSwitch:
        """A switch of that name with nothing but its commands."""
        program, commands = self._boot[name]
        made = OfflineSwitch(program, ports=MAX_PORTS)
        for line in commands:
            made.command(line)
        return made

    def send(self, host: HostPlan, data: bytes) -> list[Arrival]:
        """What comes to which hosts when a host sends this."""
        return self._carry(f"tor{host.rack}", self.plan.port(f"tor{host.rack}", host.name), data)

    def _carry(self, name: str, port: int, data: bytes) -> list[Arrival]:
        arrived = []
        for out, copy in self.switches[name].send(port, data):
            peer = next(a.peer for a in self.plan.switches[name].attachments if a.port == out)
            arrived += self._carry(peer, self.plan.port(peer, name), copy) if peer in self.switches else [(peer, copy)]
        return arrived

    def close(self) -> None:
        """End the switches."""
        for made in self.switches.values():
            made.close()
