"""Rate-limited links."""

from __future__ import annotations

import re
from collections.abc import Sequence
from subprocess import PIPE
from typing import Any

from mininet.link import Link
from mininet.node import Node

from inalab.topologies.buckets import PHYSICAL_BYTES, burst
from inalab.topologies.errors import NetworkError
from inalab.topologies.interfaces import Interface


class RateLink(Link):
    """A link whose two ends send at `rate` Mbit/s, counted as on a real wire."""

    def __init__(self, node1: Node, node2: Node, port1: int | None = None, port2: int | None = None, **parameters: Any) -> None:
        rate = parameters.pop("rate", None)
        super().__init__(node1, node2, port1=port1, port2=port2, **parameters | {"intf": Interface})
        for interface in (self.intf1, self.intf2):
            interface.turn_off("tx", "tso", "gso", "gro")
            interface.send_segments_singly()
            if rate is not None:
                limit_rate(interface.node, interface.name, rate)


def run(node: Node, command: str) -> str:
    """Run a command in a node; NetworkError if it fails."""
    output, error, code = node.pexec(command)
    if code:
        raise NetworkError(f"{node.name}: `{command}` failed: {(error or output).strip()}")
    return str(output)


def run_all(node: Node, tool: str, commands: Sequence[str]) -> str:
    """Run commands of `ip` or `tc` in a node, in one process for all; NetworkError for the first that fails."""
    process = node.popen([tool, "-batch", "-"], stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True)
    output, error = process.communicate("\n".join(commands) + "\n")
    if process.returncode:
        failed = re.search(r"^Command failed -:(\d+)", error, re.MULTILINE)
        which = f"{tool} {commands[int(failed[1]) - 1]}" if failed else tool
        raise NetworkError(f"{node.name}: `{which}` failed: {error.strip().splitlines()[0] if error.strip() else output.strip()}")
    return str(output)


def limit_rate(node: Node, interface: str, rate: float, again: bool = False) -> None:
    """Limit what an interface sends to `rate` Mbit/s by HTB, and read back that it is in force; `again` if it is limited already.

    The queue has Linux's default bands: what a socket marks as interactive (SO_PRIORITY 6) leaves before what it does not.
    """
    bucket = burst(rate)
    limit = f"htb rate {int(rate * 1e6)}bit burst {bucket} cburst {bucket} overhead {PHYSICAL_BYTES} quantum 1600"
    set_up = [
        f"qdisc add dev {interface} root handle 1: htb default 1",
        f"class add dev {interface} parent 1: classid 1:1 {limit}",
        f"qdisc add dev {interface} parent 1:1 pfifo_fast",
    ]
    commands = [f"class change dev {interface} parent 1: classid 1:1 {limit}"] if again else set_up
    shown = run_all(node, "tc", [*commands, f"class show dev {interface}"])
    found = re.search(r"class htb 1:1 .*?\brate (\d+)([KMG]?)bit", shown)
    applied = int(found[1]) * {"": 1, "K": 1e3, "M": 1e6, "G": 1e9}[found[2]] if found else 0
    if abs(applied - rate * 1e6) > 0.01 * rate * 1e6:
        raise NetworkError(f"{interface}: a rate of {rate} Mbit/s was requested, and tc reports {shown.strip() or 'none'}")
