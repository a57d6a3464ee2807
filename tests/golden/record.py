"""Record what real BMv2 does with the scenarios: python -m tests.golden.record [NAME ...], as root.

Needs what the target bmv2 needs (inalab doctor). Writes tests/golden/NAME.json: the versions, and for each packet sent,
a line with the (port, bytes) that came out. These are sorted: the threads of BMv2's egress keep no order between queues.
"""

from __future__ import annotations

import json
import select
import sys
from functools import cache, partial
from pathlib import Path
from socket import socket
from typing import Any

from inalab.switches.target import SwitchError, Target, on_interfaces, tell
from inalab.testbed import backends
from inalab.topologies import isolation
from tests.interfaces import far_end
from tests.scenarios import Scenario, scenarios

GOLDEN = Path(__file__).parent
PORTS = 8
OTHERS = {"p4info", "thrift"}  # folders of other recordings
QUIET_SECONDS = 0.03  # of silence that end a packet's consequences
PATIENCE = 5.0  # seconds for those that are known to come
MOST_PACKETS = 500  # that one packet may cause
Packets = list[dict[str, Any]]


def recorded(name: str) -> Packets:
    """What BMv2 did with a scenario, as `play` gives it."""
    packets: Packets = json.loads((GOLDEN / f"{name}.json").read_text())["packets"]
    return packets


def far_ends() -> list[socket]:
    """Of the switch's ports, in namespaces of their own."""
    return [far_end(port) for port in range(PORTS)]


def play(scenario: Scenario, target: Target, wanted: Packets | None = None, ends: list[socket] | None = None) -> Packets:
    """Run a scenario on a target, in namespaces of its own: for each packet its port, its data and what came `out`.

    What is `wanted` may take its time on a busy machine; what is more, or is not known, must come soon. The ports' `ends` are
    made here unless they are there already.
    """
    sockets = ends or far_ends()
    switch = on_interfaces(target.switch("golden", Path("/run"), seed=0), {port: f"s{port}" for port in range(PORTS)})
    tell(switch, ["set_queue_depth 4096", *scenario.commands])

    def collect(least: int) -> list[list[Any]]:
        found: list[list[Any]] = []
        while ready := select.select(sockets, [], [], QUIET_SECONDS if len(found) >= least else PATIENCE)[0]:
            found += [[sockets.index(s), s.recv(65535).hex()] for s in ready]
            if len(found) > MOST_PACKETS:
                raise SwitchError(f"packet {len(packets)} of {scenario.name} never comes to rest: {found[-1]}")
        return sorted(found)

    packets: Packets = []
    collect(0)
    for number, (port, data) in enumerate(scenario.packets):
        sockets[port].send(data)
        packets.append({"port": port, "data": data.hex(), "out": collect(len(wanted[number]["out"]) if wanted else 0)})
        if switch.dataplane() is None:
            raise SwitchError(f"the switch ended at packet {len(packets) - 1} of {scenario.name}: {switch.last_words()}")
    switch.stop(deleteIntfs=False)
    return packets


@cache
def _made(target: str, program: Path, defines: tuple[tuple[str, str], ...]) -> Target:
    return backends.with_switches(target).program(program, dict(defines))


def names() -> list[str]:
    """Of all recordings."""
    files = (path.relative_to(GOLDEN).with_suffix("") for path in GOLDEN.rglob("*.json"))
    return sorted(str(name) for name in files if name.parts[0] not in OTHERS)


def target_of(scenario: Scenario, target: str) -> Target:
    """A target for a scenario; made once for all scenarios of a program."""
    return _made(target, scenario.program, tuple(scenario.defines.items()))


def record(scenario: Scenario, target: Target) -> int:
    """Run one scenario on BMv2, and write its file."""
    packets = play(scenario, target)
    versions = [f'"{name}": {json.dumps(version)}' for name, version in target.versions().items()]
    lines = ",\n".join(json.dumps(packet) for packet in packets)
    path = GOLDEN / f"{scenario.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{{{", ".join(versions)}, "packets": [\n{lines}\n]}}\n')
    return 0


def main() -> None:
    """Record the scenarios named on the command line, or all."""
    for name in sys.argv[1:] or scenarios():
        scenario = scenarios()[name]
        if isolation.isolated(partial(record, scenario, target_of(scenario, "bmv2"))):
            sys.exit(f"{name} could not be recorded")
        print(name)


if __name__ == "__main__":
    main()
