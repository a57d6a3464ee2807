"""The least time of an all-reduce (PAPERS.md, section 5), headers on the wire included, latency left out."""

from __future__ import annotations

from typing import Any

from hosts import wire
from hosts.atp import wire as atp_wire
from hosts.schedules import SCHEDULES, Schedule, ring
from hosts.schemes import GLOO
from testbed.plan.settings import TrialSettings
from testbed.theory import oracle
from topologies.racks import NetworkPlan, Racks

SEGMENT = 1448  # bytes of data in a full TCP segment with time stamps
TCP_FRAME = SEGMENT + 66  # Ethernet, IP and TCP headers with it
TCP_OVERHEAD = (TCP_FRAME + wire.PHYSICAL_BYTES) / SEGMENT


def seconds(settings: TrialSettings, elements: int) -> float:
    """For the settings' scheme and a tensor of so many float32 or int32 elements.

    SwitchML: the slowest link carries the chunks once in each direction, and a window of exponents before them. ATP: once
    each if every chunk finds an aggregator, but a server's rack takes in the sums of all other racks. Without switches:
    what the oracle makes of the schedule; for Gloo, of a ring.
    """
    racks = _racks(settings)
    if settings.scheme == "atp":
        links = (
            [(settings.host_rate, 1.0)]
            if settings.racks == 1
            else [(settings.host_rate, 1.0), (settings.uplink_rate, _busiest(racks))]
        )
        carried = packets(settings, elements) * atp_wire.bits_on_wire(settings.k)
        return max(float(load * carried / (rate * 1e6)) for rate, load in links)
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
    bits = (atp_wire if settings.scheme == "atp" else wire).bits_on_wire(settings.k)
    frame = bits / 8 - wire.PHYSICAL_BYTES
    return float(packets(settings, elements) * frame / (4 * elements))


def uplink_tensors(settings: TrialSettings, elements: int) -> float:
    """Up the busiest rack's uplink for one sum, in sizes of the tensor, framing included. Over switches a rack sends it once."""
    if _over_switches(settings):
        return framing(settings, elements)
    racks = _racks(settings)
    uplinks = {link.number for link in NetworkPlan(racks).links if link.upper == "root"}
    steps = oracle.load(_schedule(settings), racks, 1.0)
    return framing(settings, elements) * max(sum(step[number, "up"] for step in steps) for number in uplinks)


def _racks(settings: TrialSettings) -> Racks:
    """The job's own hosts, without those of background traffic."""
    return settings.model_copy(update={"background": 0.0}).topology()


def _schedule(settings: TrialSettings) -> Schedule:
    """Of a scheme without switches; Gloo's is a ring."""
    racks = _racks(settings)
    return ring(racks.size) if settings.scheme == GLOO else SCHEDULES[settings.scheme](racks.size, racks.servers)


def _over_switches(settings: TrialSettings) -> bool:
    return settings.scheme != GLOO and settings.scheme not in SCHEDULES


def packets(settings: TrialSettings, elements: int) -> int:
    """Of a worker: chunks, and a window of SwitchML's exponents before them."""
    chunks = -(-elements // settings.k)
    return chunks + (min(settings.slots, chunks) if settings.scaling is None and settings.scheme == "switchml" else 0)


def _busiest(racks: Racks) -> float:
    """Sums and results that come down to a rack, for each of a job's chunks: the most of all racks.

    A rack's own servers, which are dealt out in turn, get the other racks' sums of their share; of the rest come results.
    """
    shares = [len(range(r, racks.servers, racks.racks)) / racks.servers for r in range(racks.racks)]
    return float(max(share * (racks.racks - 1) + (1 - share) for share in shares))
