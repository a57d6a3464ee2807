"""Traffic of no job: datagrams at a steady rate from one host to another, whatever happens to them."""

from __future__ import annotations

import socket
import time
from pathlib import Path

from inalab.hosts.ethernet import PHYSICAL_BYTES, UDP_OVERHEAD_BYTES

DISCARD_PORT = 9
TICK = 0.004  # seconds between two bursts, at least
HEADERS = UDP_OVERHEAD_BYTES - PHYSICAL_BYTES


def sink() -> int:
    """Hold the port open, so that nothing is sent back; ends with the network."""
    Path("/proc/self/comm").write_text("background")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("", DISCARD_PORT))
        while True:
            found.recv(65536)


def source(destination: str, rate: float, frame: int) -> int:
    """Send frames of so many bytes at `rate` Mbit/s on the wire, preamble and gap counted; ends with the network."""
    Path("/proc/self/comm").write_text("background")
    each = 8 * (frame + PHYSICAL_BYTES) / (rate * 1e6)  # seconds
    data = bytes(frame - HEADERS)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.connect((destination, DISCARD_PORT))
        due = time.monotonic()
        while True:
            while due <= time.monotonic():
                try:
                    made.send(data)
                except OSError:  # the interface is full, or told of the port before it was open
                    time.sleep(TICK)
                due += each
            time.sleep(max(TICK, due - time.monotonic()))
