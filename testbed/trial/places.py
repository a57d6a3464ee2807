"""What a host is told of the job that it takes part in: its place, and where the workers meet."""

from __future__ import annotations

from collections.abc import Sequence

from inalab.hosts.collective import Membership
from inalab.hosts.place import Place
from inalab.hosts.worker import Rendezvous
from inalab.schemes.scheme import Admitted
from inalab.topologies.jobs import JobPlan
from inalab.topologies.plan import HostPlan, NetworkPlan

RENDEZVOUS_PORT = 29501


def place_of(plan: NetworkPlan, admitted: Admitted, host: HostPlan, seed: int = 0, jobs: Sequence[Admitted] = ()) -> Place:
    """A host's place in a job, which is one of these jobs if there are several. The seed is for servers and what manages them."""
    job = admitted.plan
    membership = Membership(
        job.number, job.rank(host), job.size, job.members(plan.topology.racks), plan.racks_of_pods(), list(job.called)
    )
    switches, root = [rack.station.ip for rack in plan.racks], plan.root(job.number)
    peers, control = [h.station.ip for h in job.everyone], [h.management_ip for h in job.everyone]
    racks, rates = [s.rack for s in job.servers], plan.rates(job.everyone)
    alike = [one for one in jobs if one.scheme is admitted.scheme]
    together = tuple(place_of(plan, one, one.plan.hosts[0], seed) for one in alike if len(alike) > 1)
    return Place(
        admitted.scheme, admitted.settings, membership, peers, racks, switches, control, rates, plan.uplink_rates(),
        plan.groups(job.hosts), plan.topology.nic, root.station.ip if root else "", job.port, seed, together,
    )  # fmt: skip


def places_of(plan: NetworkPlan, admitted: Sequence[Admitted]) -> dict[str, Place]:
    """The places of all jobs' hosts, by name."""
    return {host.name: place_of(plan, job, host, jobs=admitted) for job in admitted for host in job.plan.everyone}


def rendezvous(job: JobPlan, host: HostPlan, gloo_measured: bool) -> Rendezvous:
    """Workers meet on the management network, where no fault reaches them. Gloo stays there unless it is measured, too."""
    interface = host.data_interface if gloo_measured else host.management_interface
    return Rendezvous(job.hosts[0].management_ip, RENDEZVOUS_PORT, interface)
