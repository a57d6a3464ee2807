"""The least time of an all-reduce (PAPERS.md, section 5), headers on the wire included, latency left out."""

from __future__ import annotations

from typing import Any

from experiments import oracle
from experiments.settings import TrialSettings
from hosts import wire
from hosts.schedules import SCHEDULES, Schedule, ring
from hosts.schemes import GLOO
from topologies.racks import NetworkPlan

SEGMENT = 1448  # bytes of data in a full TCP segment with time stamps
TCP_FRAME = SEGMENT + 66  # Ethernet, IP and TCP headers with it
TCP_OVERHEAD = (TCP_FRAME + wire.PHYSICAL_BYTES) / SEGMENT


def seconds(settings: TrialSettings, elements: int) -> float:
    """For the settings' scheme and a tensor of so many float32 or int32 elements.

    Over switches: the slowest link carries the chunks once in each direction, and a window of exponents before them.
    Without switches: what the oracle makes of the schedule; for Gloo, of a ring.
    """
    racks = settings.topology()
    if not _over_switches(settings):
        return TCP_OVERHEAD * oracle.seconds(_schedule(settings), racks, 4 * elements)
    slowest = settings.host_rate if settings.racks == 1 else min(settings.host_rate, settings.uplink_rate)
    return float(packets(settings, elements) * wire.bits_on_wire(settings.k) / (slowest * 1e6))


def of_trial(trial: dict[str, Any]) -> float:
    """The bound in seconds of a trial's sums, from its entry in trials.jsonl."""
    return seconds(TrialSettings(**trial["settings"]), trial["metrics"]["elements"])


def ate(trial: dict[str, Any]) -> float:
    """The bound of a trial's aggregated tensor elements per second."""
    return float(trial["metrics"]["elements"] / of_trial(trial))


def framing(settings: TrialSettings, elements: int) -> float:
    """What headers, and exponents that go ahead, make of a byte of the tensor: bytes in frames, without preamble and gap."""
    if not _over_switches(settings):
        return TCP_FRAME / SEGMENT
    frame = wire.bits_on_wire(settings.k) / 8 - wire.PHYSICAL_BYTES
    return packets(settings, elements) * frame / (4 * elements)


def uplink_tensors(settings: TrialSettings, elements: int) -> float:
    """Up the busiest rack's uplink for one sum, in sizes of the tensor, framing included. Over switches a rack sends it once."""
    if _over_switches(settings):
        return framing(settings, elements)
    racks = settings.topology()
    uplinks = {link.number for link in NetworkPlan(racks).links if link.upper == "root"}
    steps = oracle.load(_schedule(settings), racks, 1.0)
    return framing(settings, elements) * max(sum(step[number, "up"] for step in steps) for number in uplinks)


def _schedule(settings: TrialSettings) -> Schedule:
    """Of a scheme without switches; Gloo's is a ring."""
    racks = settings.topology()
    return ring(racks.size) if settings.scheme == GLOO else SCHEDULES[settings.scheme](racks.size, racks.servers)


def _over_switches(settings: TrialSettings) -> bool:
    return settings.scheme != GLOO and settings.scheme not in SCHEDULES


def packets(settings: TrialSettings, elements: int) -> int:
    """Of a worker: chunks, and a window of exponents before them."""
    chunks = -(-elements // settings.k)
    return chunks + (min(settings.slots, chunks) if settings.scaling is None else 0)
