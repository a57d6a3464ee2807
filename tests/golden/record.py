"""Record what real BMv2 does with the scenarios: python -m tests.golden.record [NAME ...], as root.

Needs simple_switch, simple_switch_CLI and p4c-bm2-ss on the PATH. Writes tests/golden/NAME.json: for each packet sent,
the (port, bytes) that came out, in the order of ports.
"""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.interfaces import far_end
from tests.scenarios import SCENARIOS, Scenario
from topologies import isolation

PORTS = 8
QUIET_SECONDS = 0.03  # of silence that end a packet's consequences
THRIFT_PORT = "9090"


def version(tool: str) -> str:
    """The last line of a tool's --version, which is where both have it."""
    done = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip().splitlines()[-1]


def collect(sockets: list[socket.socket]) -> list[tuple[int, str]]:
    """What comes out until it is quiet."""
    found = []
    while ready := select.select(sockets, [], [], QUIET_SECONDS)[0]:
        found += [(sockets.index(s), s.recv(65535).hex()) for s in ready]
    return sorted(found, key=lambda item: item[0])


def record(scenario: Scenario) -> int:
    """Run one scenario on BMv2, inside namespaces of its own, and write its file."""
    with tempfile.TemporaryDirectory() as scratch:
        compiled = Path(scratch) / "program.json"
        defines = [word for name, value in scenario.defines.items() for word in ("-D", f"{name}={value}")]
        subprocess.run(["p4c-bm2-ss", "--std", "p4-16", *defines, "-o", compiled, scenario.program], check=True)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        sockets = [far_end(port) for port in range(PORTS)]
        interfaces = [word for port in range(PORTS) for word in ("-i", f"{port}@s{port}")]
        switch = subprocess.Popen(
            ["simple_switch", *interfaces, "--thrift-port", THRIFT_PORT, "--log-level", "off", compiled], stdout=subprocess.DEVNULL
        )
        try:
            _configure(scenario.commands)
            collect(sockets)
            packets = []
            for port, data in scenario.packets:
                sockets[port].send(data)
                packets.append({"port": port, "data": data.hex(), "out": collect(sockets)})
        finally:
            switch.terminate()
            switch.wait()
    recorded = {"simple_switch": version("simple_switch"), "p4c": version("p4c-bm2-ss"), "packets": packets}
    (Path(__file__).parent / f"{scenario.name}.json").write_text(json.dumps(recorded, indent=0) + "\n")
    return 0


def _configure(commands: list[str]) -> None:
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", int(THRIFT_PORT))) == 0:
                break
        time.sleep(0.05)
    done = subprocess.run(
        ["simple_switch_CLI", "--thrift-port", THRIFT_PORT], input="\n".join(["set_queue_depth 4096", *commands]) + "\n",
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    refused = [line for line in done.stdout.splitlines() if "Error" in line or "Invalid" in line]
    if refused:
        sys.exit(f"simple_switch_CLI refused a command: {refused[0]}")


def main() -> None:
    """Record the scenarios named on the command line, or all."""
    for name in sys.argv[1:] or SCENARIOS:
        if isolation.isolated(lambda name=name: record(SCENARIOS[name])):  # type: ignore[misc]
            sys.exit(f"{name} could not be recorded")
        print(name)


if __name__ == "__main__":
    main()
