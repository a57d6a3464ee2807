"""What a trial's settings are to the simulator: the topology's links as times of packets."""

from __future__ import annotations

import numpy as np

from testbed.plan.settings import SettingsError, TrialSettings
from testbed.simulator.switchml import Costs, Network, Simulated, simulate
from topologies.plan import NetworkPlan
from topologies.topology import TopologyError


def network_of(plan: NetworkPlan, bits: int) -> Network:
    """The workers' network, where each packet has so many bits on a link. Links without a rate take no time."""
    rates = {link.lower: link.rate for link in plan.links}

    def takes(name: str) -> float:
        rate = rates[name]
        return bits / (rate * 1e6) if rate else 0.0

    uplinks = [takes(rack.name) for rack in plan.racks] if len(plan.racks) > 1 else []
    return Network(
        np.array([host.rack for host in plan.hosts]), np.array([takes(host.name) for host in plan.hosts]), np.array(uplinks)
    )


def sum_of(settings: TrialSettings, elements: int, costs: Costs) -> tuple[Simulated, float]:
    """A sum of so many elements by all workers, who begin together, as the first of a stream; and the least time, by the bound.

    Raises SettingsError for what is not simulated.
    """
    scheme = settings.of_scheme()
    if scheme.name != "switchml":
        raise SettingsError(f"scheme {scheme.name} is not simulated yet: set scheme=switchml")
    if settings.loss or settings.jobs or settings.topology not in ("racks", "mixed-rates"):
        raise SettingsError("one job, no loss, and racks below one root are simulated: set loss=0, and leave jobs and topology out")
    try:
        plan, own = settings.plan(), settings.scheme_settings()
    except TopologyError as error:
        raise SettingsError(str(error)) from None
    network = network_of(plan, scheme.bits_on_wire(settings.k))
    packets = scheme.packets(own, elements)  # type: ignore[attr-defined] # which a streaming scheme has
    found = simulate(network, packets, settings.slots, np.zeros(len(plan.hosts)), costs)
    return found, float(scheme.bound(plan, own, elements))
