"""ATP and SwitchML in one program: packets of both by turns, and some that come to the other's port."""

from __future__ import annotations

from itertools import chain, zip_longest
from pathlib import Path

from inalab.hosts.atp import wire as atp_wire
from inalab.hosts.switchml import wire as switchml_wire
from tests.packets import TestJob
from tests.scenarios import atp, switchml
from tests.scenarios.scenario import Scenario

UDP_DESTINATION = slice(36, 38)  # in a frame


def both() -> Scenario:
    """Two jobs of ATP and one of SwitchML at one switch, none of whose packets changes what the others have."""
    first, job = atp.one_level(1, 2), TestJob(2, number=2)
    second = switchml.story(job, 5)
    ports = [port.to_bytes(2, "big") for port in (switchml_wire.UDP_PORT, atp_wire.UDP_PORT)]
    strange = [
        (port, data[: UDP_DESTINATION.start] + other + data[UDP_DESTINATION.stop :])
        for own, other in ((first.packets[:3], ports[0]), (second[:3], ports[1]))
        for port, data in own
    ]
    turns = zip_longest(first.packets, second, strange)
    packets = [packet for packet in chain.from_iterable(turns) if packet is not None]
    defines = {"K": "32", "AGGREGATORS": "16", "POOL_CELLS": "64"}
    return Scenario("atp-and-switchml", Path("p4/atp_switchml.p4"), packets, first.commands + job.commands(first.commands), defines)
