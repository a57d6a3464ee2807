"""Whose time the processors spent: a trial's switches, the rest of the trial, other processes, or the hypervisor.

Within a trial's PID namespace /proc holds the trial's processes alone, and /proc/stat counts those of the whole machine.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROCESSORS = "the processors"  # what a trial's metrics call them
PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")  # a second


class Spent(NamedTuple):
    """Seconds of all processors together since the machine started, and of this namespace's processes since they did."""

    total: float
    idle: float
    stolen: float
    interrupts: float
    switches: float
    hosts: float


class Shares(NamedTuple):
    """Of the processors' time between two readings. Interrupts, which carry packets for whoever runs, are no process's.

    `hosts` is all of the trial but its switches: workers, servers, the coordinator. `others` are not of the trial.
    """

    idle: float
    stolen: float
    switches: float
    hosts: float
    others: float


def read(switches: Collection[int]) -> Spent:
    """What has been spent by now; `switches` are the processes of the trial's switches."""
    words = (PROC / "stat").read_text().split("\n", 1)[0].split()
    user, nice, system, idle, iowait, irq, softirq, steal = (int(word) / TICKS for word in words[1:9])  # guests are users, too
    own = _by_process()
    moved = sum(own.get(pid, 0.0) for pid in switches)
    total = user + nice + system + idle + iowait + irq + softirq + steal
    return Spent(total, idle + iowait, steal, irq + softirq, moved, sum(own.values()) - moved)


def shares(before: Spent, after: Spent) -> Shares:
    """Who had which share between two readings."""
    spent = Spent(*(max(b - a, 0.0) for a, b in zip(before, after, strict=True)))
    whole = max(spent.total, 1e-9)
    own = spent.switches + spent.hosts
    others = max(spent.total - spent.idle - spent.stolen - spent.interrupts - own, 0.0)
    return Shares(spent.idle / whole, spent.stolen / whole, spent.switches / whole, spent.hosts / whole, others / whole)


def _by_process() -> dict[int, float]:
    """Seconds that each process has run, and its children that have ended."""
    seconds = {}
    for folder in PROC.iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):  # it ended meanwhile
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                seconds[int(folder.name)] = sum(map(int, fields[11:15])) / TICKS
    return seconds
