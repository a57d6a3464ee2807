"""The schemes that follow a schedule of ours, by name."""

from __future__ import annotations

from collections.abc import Callable

from hosts.tcp.schedules import Schedule
from schemes import registry
from schemes.tcp import Scheduled

SCHEDULES: dict[str, Callable[[int, int], Schedule]] = {
    name: scheme.schedule for name in registry.names() if isinstance(scheme := registry.find(name), Scheduled) and not scheme.native
}
