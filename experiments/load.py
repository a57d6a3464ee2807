"""How busy the processors and the switches are while a trial runs, window by window: its mean would hide the waiting in a step."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil

from topologies.network import Network

WINDOW = 0.1  # seconds, at least
PROCESSORS_FULL = 0.05  # idle share below which a window counts as full
WAYS = {"up": "rx", "down": "tx"}  # seen from a link's upper end
THREAD_FULL = 0.9  # share of a window that one thread of a switch may run: it has a processor at most


class LoadMeter:
    """Sample it often; it measures once a window. A switch is as busy as its busiest thread."""

    def __init__(self, switches: dict[str, int]) -> None:
        """`switches` are the processes that move packets, by the switches' names."""
        self.switches = switches
        self.windows = 0
        self.full = 0  # windows in which somebody could do no more
        self.burdened: Counter[str] = Counter()  # and who it was
        self.now = time.monotonic()
        self.first = self.times = psutil.cpu_times()
        self.ran = {name: _thread_seconds(pid) for name, pid in switches.items()}

    def sample(self) -> None:
        """Close a window, if one is over."""
        now = time.monotonic()
        elapsed = now - self.now
        if elapsed < WINDOW:
            return
        times, ran = psutil.cpu_times(), {name: _thread_seconds(pid) for name, pid in self.switches.items()}
        who = [] if _idle(self.times, times) >= PROCESSORS_FULL else ["the processors"]
        for name, threads in ran.items() if not who else ():
            if any(s - self.ran[name].get(t, s) > THREAD_FULL * elapsed for t, s in threads.items()):
                who.append(f"switch {name}")
        self.windows += 1
        self.full += bool(who)
        self.burdened.update(who)
        self.now, self.times, self.ran = now, times, ran

    def metrics(self) -> dict[str, float | str]:
        """The share of time that was idle, the share of windows in which somebody could do no more, and who that was mostly."""
        (who, _), *_ = self.burdened.most_common(1) or [("", 0)]
        idle = _idle(self.first, psutil.cpu_times())
        return {"cpu_idle": idle, "saturated": self.full / max(self.windows, 1), "saturated_by": who}


class LinkBytes:
    """Bytes over the racks' uplinks and the servers' links, as the kernel counts them (Ethernet headers included).

    They are counted at the links' upper ends, which are in the trial's own namespace.
    """

    def __init__(self, network: Network) -> None:
        """Counting begins now."""
        plan = network.plan
        lower = {"uplink_bytes": list(plan.switches), "server_bytes": [server.name for server in plan.servers]}
        links = {kind: [link for name in names for link in plan.links if link.lower == name] for kind, names in lower.items()}
        self.interfaces = {
            kind: [network.mininet.get(link.upper).intfs[link.upper_port].name for link in chosen] for kind, chosen in links.items()
        }
        self.first = self._read()

    def _read(self) -> dict[str, list[dict[str, int]]]:
        return {
            kind: [
                {way: int(Path(f"/sys/class/net/{name}/statistics/{counter}_bytes").read_text()) for way, counter in WAYS.items()}
                for name in names
            ]
            for kind, names in self.interfaces.items()
        }

    def metrics(self) -> dict[str, list[dict[str, int]]]:
        """The bytes "up" and "down" since the beginning: `uplink_bytes` by rack, `server_bytes` by server; "down" is into it."""
        now = self._read()
        return {
            kind: [
                {way: after[way] - before[way] for way in WAYS} for before, after in zip(self.first[kind], now[kind], strict=True)
            ]
            for kind in self.interfaces
        }


def _idle(before: object, after: object) -> float:
    """The share of all processors' time that was idle."""
    spent = sum(b - a for a, b in zip(before, after, strict=True))  # type: ignore[call-overload]
    return float((after.idle - before.idle + after.iowait - before.iowait) / max(spent, 1e-9))  # type: ignore[attr-defined]


def _thread_seconds(pid: int) -> dict[str, float]:
    """The seconds that each thread of a process has run; empty when it has ended."""
    seconds = {}
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            seconds[task.name] = int((task / "schedstat").read_text().split()[0]) / 1e9
    return seconds
