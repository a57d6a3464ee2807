"""Ports of a switch under test: veth pairs with a raw socket at the far end. For use in a namespace of the test's own."""

from __future__ import annotations

import socket
import subprocess

SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23
ETH_P_ALL = 3


def far_end(port: int) -> socket.socket:
    """Make the pair s<port>, which is the switch's, and p<port>; a socket that sends and receives at the latter."""
    subprocess.run(["ip", "link", "add", f"s{port}", "type", "veth", "peer", "name", f"p{port}"], check=True)
    for name in (f"s{port}", f"p{port}"):
        subprocess.run(["ip", "link", "set", name, "up"], check=True)
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    made.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    made.bind((f"p{port}", 0))
    return made
