"""ATP and SwitchML in one program: packets of both by turns, and some that come to the other's port."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path

from inalab.hosts.atp import wire as atp_wire
from inalab.hosts.switchml import wire as switchml_wire
from tests.packets import SWITCH, TestJob, frame, vector, worker_station
from tests.scenarios import atp, switchml
from tests.scenarios.scenario import Scenario

UDP_DESTINATION = slice(36, 38)  # in a frame
PASSING = 5  # a job that is aggregated elsewhere


def both() -> Scenario:
    """Two jobs of ATP and one of SwitchML at one switch, none of whose packets changes what the others have; and one that passes by."""
    first, job = atp.one_level(1, 2), TestJob(2, number=2)
    second = switchml.story(job, 5)
    ports = [port.to_bytes(2, "big") for port in (switchml_wire.UDP_PORT, atp_wire.UDP_PORT)]
    strange = [
        (port, data[: UDP_DESTINATION.start] + other + data[UDP_DESTINATION.stop :])
        for own, other in ((first.packets[:3], ports[0]), (second[:3], ports[1]))
        for port, data in own
    ]
    everyone = replace(SWITCH, mac="ff:ff:ff:ff:ff:ff")
    passing = [
        (
            0,
            frame(
                worker_station(0), to, {"job": PASSING, "worker": 0, "slot": 0, "chunk": 0, "version": 0, "kind": kind}, vector(5)
            ),
        )
        for kind in (switchml_wire.KIND_UPDATE, switchml_wire.KIND_RESULT)
        for to in (worker_station(1), everyone)
    ]
    turns = zip_longest(first.packets, second, strange, passing)
    packets = [packet for packet in chain.from_iterable(turns) if packet is not None]
    defines = {"K": "32", "AGGREGATORS": "16", "POOL_CELLS": "64"}
    commands = [
        *first.commands,
        *job.commands(first.commands),
        f"table_add switchml.admission.jobs switchml.admission.pass_by {PASSING} =>",
    ]
    return Scenario("atp-and-switchml", Path("p4/atp_switchml.p4"), packets, commands, defines)
