"""What a host is told of the job that it takes part in: its place, and where the workers meet."""

from __future__ import annotations

from hosts.collective import Membership
from hosts.schemes import GLOO, Place
from hosts.worker import Rendezvous
from topologies.racks import HostPlan, NetworkPlan

RENDEZVOUS_PORT = 29501


def place_of(
    plan: NetworkPlan, host: HostPlan, scheme: str, slots: int, k: int, patience: float, scaling: float | None = None
) -> Place:
    """A host's place in the one job over all hosts."""
    membership = Membership(0, host.rank, plan.racks.size, plan.racks.members)
    peers = [h.station.ip for h in plan.everyone]
    return Place(scheme, membership, peers, host.switch.ip, slots, k, patience, scaling)


def rendezvous(plan: NetworkPlan, host: HostPlan, scheme: str) -> Rendezvous:
    """Workers meet on the management network, where no fault reaches them, and Gloo stays there unless it is the scheme."""
    interface = f"{host.name}-eth0" if scheme == GLOO else f"{host.name}-mgmt"
    return Rendezvous(plan.hosts[0].management_ip, RENDEZVOUS_PORT, interface)
