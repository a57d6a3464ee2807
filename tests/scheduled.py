"""The schemes that follow a schedule of ours, by name; but for that of machines, which has tests of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from inalab.hosts.tcp.schedules import Nodes, Schedule
from inalab.schemes import registry
from inalab.schemes.tcp import Scheduled


def _in_one_rack(scheme: Scheduled, workers: int, servers: int) -> Schedule:
    """With equal links."""
    return scheme.schedule(Nodes(workers, servers, [1.0] * (workers + servers), [0] * (workers + servers)))


SCHEDULES: dict[str, Callable[[int, int], Schedule]] = {
    name: partial(_in_one_rack, scheme)
    for name in registry.names()
    if isinstance(scheme := registry.find(name), Scheduled) and not scheme.native
}
