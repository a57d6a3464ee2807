"""A trial's packets in files: a process beside the workers and switches writes what passes the upper ends of chosen links.

Losses on request are decided in the switch at a link's upper end. What is lost on the way up is in the file, therefore, and what is
lost on the way down is not.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inalab.testbed.plan.captures import chosen
from inalab.testbed.trial import pcapng
from inalab.testbed.trial.errors import TrialError
from inalab.testbed.trial.packet_ring import RETIRE_MS, PacketRing
from inalab.topologies import isolation
from inalab.topologies.plan import LinkPlan, NetworkPlan

if TYPE_CHECKING:  # which takes Mininet
    from inalab.topologies.network import Network

MOST, LEAST, TOGETHER = 64, 4, 1024  # blocks in the ring of one link, and in all rings
LAST_BLOCKS = 5 * RETIRE_MS / 1000  # seconds until what has passed is readable
Counts = dict[str, dict[str, int]]  # by link: packets written, packets dropped because the process was too slow


@dataclass(frozen=True)
class Capture:
    """What to capture of a trial: names of links (testbed.plan.captures), and the folder of their files."""

    names: Sequence[str]
    folder: Path


Files = Sequence[tuple[LinkPlan, int]]  # links, each with the descriptor of its file


@contextmanager
def opened(capture: Capture | None, plan: NetworkPlan) -> Iterator[Files]:
    """An empty file for each link captured, while the file system is still the caller's. Raises TrialError."""
    files: list[tuple[LinkPlan, int]] = []
    try:
        for link in chosen(plan, capture.names) if capture else []:
            assert capture
            files.append((link, _create(capture.folder / f"{link.name}.pcapng")))
        yield files
    finally:
        for _, descriptor in files:
            os.close(descriptor)


def _create(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    except OSError as error:
        raise TrialError(f"{path} cannot be written: {error.strerror}") from None


@contextmanager
def capturing(network: Network, files: Files) -> Iterator[Counts]:
    """Write what passes these links meanwhile; at the end the counts are filled in.

    Raises TrialError where the kernel has no packet rings, or a file cannot be written.
    """
    counts: Counts = {}
    if not files:
        yield counts
        return
    blocks = max(LEAST, min(MOST, TOGETHER // len(files)))
    try:
        rings = [PacketRing(_interface(network, link), blocks) for link, _ in files]
    except OSError as error:
        raise TrialError(f"packets cannot be captured here: {error.strerror}") from None
    ours, theirs = Pipe()

    def work() -> int:
        ours.close()
        return _write_all(rings, files, theirs)

    pid = isolation.fork(work)
    theirs.close()
    for ring in rings:
        ring.close()
    try:
        yield counts
    except BaseException:
        _end(pid, ours)
        raise
    outcome = _end(pid, ours)
    if isinstance(outcome, str):
        raise TrialError(outcome)
    counts |= outcome


def _interface(network: Network, link: LinkPlan) -> str:
    """A link's upper end, which is in the trial's own namespace."""
    return str(network.mininet.get(link.upper).intfs[link.upper_port].name)


def _end(pid: int, connection: Connection) -> Counts | str:
    """Have the process write the rest, and wait for it; the counts, or why there are none."""
    outcome: Any = None
    with suppress(OSError):  # it has ended already
        connection.send(None)
    with suppress(EOFError, OSError):
        outcome = connection.recv()
    connection.close()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return outcome or f"the process that captures packets {isolation.ending(code)}"


def _write_all(rings: list[PacketRing], files: Files, connection: Connection) -> int:
    """The process: write until the other end sends something, then send it the counts, or why there are none."""
    try:
        for link, descriptor in files:
            write(descriptor, beginning(link))
        counts = [0] * len(rings)
        poll = select.poll()
        by_number = {ring.fileno(): i for i, ring in enumerate(rings)}
        for number in (*by_number, connection.fileno()):
            poll.register(number, select.POLLIN)
        ready: list[int] = []
        while connection.fileno() not in ready:
            ready = [number for number, _ in poll.poll()]
            for i in (by_number[number] for number in ready if number in by_number):
                counts[i] += _drain(rings[i], files[i][1])
        time.sleep(LAST_BLOCKS)
        for i, ring in enumerate(rings):
            counts[i] += _drain(ring, files[i][1])
    except OSError as error:
        connection.send(f"captures cannot be written: {error.strerror}")
        return 1
    whole = zip(files, rings, counts, strict=True)
    connection.send({link.name: {"packets": count, "dropped": ring.dropped()} for (link, _), ring, count in whole})
    return 0


def _drain(ring: PacketRing, descriptor: int) -> int:
    """Write what is in a ring; how many packets that was."""
    count = 0
    for frames in ring.read():
        write(descriptor, b"".join(pcapng.packet(*frame) for frame in frames))
        count += len(frames)
    return count


def beginning(link: LinkPlan) -> bytes:
    """Of a link's file."""
    return pcapng.header(link.name, f"from {link.lower} up to {link.upper}, seen at {link.upper}")


def write(descriptor: int, data: bytes) -> None:
    """All of the data: write() may take a part."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
