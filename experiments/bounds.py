"""The least time of an all-reduce (PAPERS.md, section 5), headers on the wire included, latency left out."""

from __future__ import annotations

from experiments import oracle
from experiments.settings import TrialSettings
from hosts import wire
from hosts.schedules import SCHEDULES, ring
from hosts.schemes import GLOO

TCP_OVERHEAD = 1538 / 1448  # bytes on the wire for those in a full segment with time stamps


def seconds(settings: TrialSettings, elements: int) -> float:
    """For the settings' scheme and a tensor of so many float32 or int32 elements.

    Over switches: the slowest link carries the chunks once in each direction, and a window of exponents before them.
    Without switches: what the oracle makes of the schedule; for Gloo, of a ring.
    """
    racks = settings.topology()
    if settings.scheme == GLOO or settings.scheme in SCHEDULES:
        schedule = ring(racks.size) if settings.scheme == GLOO else SCHEDULES[settings.scheme](racks.size, racks.servers)
        return TCP_OVERHEAD * oracle.seconds(schedule, racks, 4 * elements)
    chunks = -(-elements // settings.k)
    packets = chunks + (min(settings.slots, chunks) if settings.scaling is None else 0)
    slowest = settings.host_rate if settings.racks == 1 else min(settings.host_rate, settings.uplink_rate)
    return float(packets * wire.bits_on_wire(settings.k) / (slowest * 1e6))
