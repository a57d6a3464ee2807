"""iperf between two hosts of a network. Mininet's own waits for lines that today's iperf does not print, without end."""

from __future__ import annotations

import os
import re
import shutil
import socket
import time
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT, Popen, TimeoutExpired

from mininet.node import Host

from inalab.topologies import isolation

PORT = 5001
SECONDS = 5  # of traffic
TO_CONNECT, TO_LISTEN, TO_ARRIVE, TO_END = 10.0, 10.0, 10.0, 60.0  # seconds of patience


class IperfError(Exception):
    """There is no result; str() is one sentence."""


def measure(client: Host, server: Host, udp_rate: str | None = None) -> list[str]:
    """What the server and the client measured, such as 9.5 Mbits/sec; over TCP, or over UDP at a rate such as 10M."""
    if shutil.which("iperf", path=isolation.search_path()) is None:
        raise IperfError("iperf is not installed: sudo apt-get install iperf")
    if udp_rate is None:
        _connect(client, server)
    words = ["iperf", "-p", str(PORT), *([] if udp_rate is None else ["-u"])]
    started: list[Popen[str]] = []
    try:
        started.append(_start(server, [*words, "-s", "-P", "1"]))  # it ends with its client
        _wait_until_listening(server, started[0], "tcp" if udp_rate is None else "udp")
        rate = [] if udp_rate is None else ["-b", udp_rate]
        started.append(_start(client, [*words, "-c", server.IP(), "-t", str(SECONDS), *rate]))
        sent = _rate(started[1].communicate(timeout=TO_END)[0], client)
        received = _rate(started[0].communicate(timeout=TO_END if udp_rate is None else TO_ARRIVE)[0], server)
    except TimeoutExpired:
        raise IperfError(f"iperf from {client.name} to {server.name} does not end: what was sent does not arrive") from None
    finally:
        for process in started:
            process.kill()
            process.communicate()
    return [received, sent]


def _start(host: Host, words: list[str]) -> Popen[str]:
    process: Popen[str] = host.popen(words, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, text=True)
    return process


def _connect(client: Host, server: Host) -> None:
    """Make a connection as iperf will, because iperf itself tries for minutes. Raises IperfError."""
    try:
        with isolation.in_network(server.pid):
            listener = socket.create_server((server.IP(), PORT))
    except OSError as error:
        raise IperfError(f"port {PORT} of {server.name} cannot be used: {os.strerror(error.errno or 0)}") from None
    with listener, isolation.in_network(client.pid):
        try:
            socket.create_connection((server.IP(), PORT), timeout=TO_CONNECT).close()
        except OSError as error:
            why = f"no answer in {TO_CONNECT:g} s" if isinstance(error, TimeoutError) else error.strerror
            raise IperfError(f"{client.name} does not reach {server.name} by TCP, {server.IP()} port {PORT}: {why}") from None


def _wait_until_listening(server: Host, process: Popen[str], protocol: str) -> None:
    end = time.monotonic() + TO_LISTEN
    listening = re.compile(rf"^ *\d+: \w+:{PORT:04X} \w+:0000 ", re.M)
    while not listening.search(Path(f"/proc/{server.pid}/net/{protocol}").read_text()):
        if process.poll() is not None or time.monotonic() > end:
            process.kill()
            raise IperfError(f"iperf does not listen on {server.name}: {(process.communicate()[0] or '').strip()}")
        time.sleep(0.02)


def _rate(printed: str, host: Host) -> str:
    found = re.findall(r"[\d.]+ \w*bits/sec", printed)
    if not found:
        raise IperfError(f"iperf on {host.name} measured nothing: {' / '.join(printed.strip().splitlines()[-2:])}")
    return str(found[-1])
