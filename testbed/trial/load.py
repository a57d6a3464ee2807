"""How busy the processors and the switches are while a trial runs, window by window: its mean would hide the waiting in a step."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from inalab.testbed.trial import processors
from inalab.testbed.trial.processors import PROCESSORS, Spent, shares
from inalab.topologies.network import Network
from inalab.topologies.plan import LinkPlan

WINDOW = 0.1  # seconds, at least
COST = 0.05  # share of the time that measuring may take: windows are longer where there are many processes
PROCESSORS_FULL = 0.05  # idle share below which a window counts as full
WAYS = {"up": "rx", "down": "tx"}  # seen from a link's upper end
THREAD_FULL = 0.9  # share of a window that one thread of a switch may run: it has a processor at most


class LoadMeter:
    """Sample it often; it measures once a window. A switch is as busy as its busiest thread."""

    METRICS = (
        "cpu_idle", "cpu_stolen", "cpu_switches", "cpu_hosts", "cpu_others", "saturated", "saturated_by", "saturated_shares",
    )  # fmt: skip

    def __init__(self, switches: dict[str, int]) -> None:
        """`switches` are the processes that move packets, by the switches' names."""
        self.switches = switches
        self.windows = 0
        self.full = 0  # windows in which a switch or the processors were saturated
        self.burdened: Counter[str] = Counter()  # and who it was
        self.full_time = Spent(0, 0, 0, 0, 0, 0)  # in windows in which it was the processors
        self.window = WINDOW
        self.now = time.monotonic()
        self.first = self.spent = self._read()
        self.ran = {name: _thread_seconds(pid) for name, pid in switches.items()}

    @classmethod
    def of(cls, network: Network) -> LoadMeter:
        """For the switches of a network, as far as processes of this machine run them."""
        return cls({name: pid for name in network.controls if (pid := network.switch(name).dataplane())})

    def _read(self) -> Spent:
        return processors.read(self.switches.values())

    def sample(self) -> None:
        """Close a window, if one is over."""
        now = time.monotonic()
        elapsed = now - self.now
        if elapsed < self.window:
            return
        spent, ran = self._read(), {name: _thread_seconds(pid) for name, pid in self.switches.items()}
        who = [] if shares(self.spent, spent).idle >= PROCESSORS_FULL else [PROCESSORS]
        if who:
            self.full_time = Spent(*(t + b - a for t, a, b in zip(self.full_time, self.spent, spent, strict=True)))
        for name, threads in ran.items() if not who else ():
            if any(s - self.ran[name].get(t, s) > THREAD_FULL * elapsed for t, s in threads.items()):
                who.append(f"switch {name}")
        self.windows += 1
        self.full += bool(who)
        self.burdened.update(who)
        self.now, self.spent, self.ran = now, spent, ran
        self.window = max(WINDOW, (time.monotonic() - now) / COST)

    def metrics(self) -> dict[str, Any]:
        """What METRICS names: shares of the processors' time, in all and in the windows in which they were saturated.

        `saturated` is the share of windows in which a switch or the processors were saturated, `saturated_by` which, mostly.
        """
        (who, _), *_ = self.burdened.most_common(1) or [("", 0)]
        whole = {f"cpu_{name}": share for name, share in shares(self.first, self._read())._asdict().items()}
        full = shares(Spent(0, 0, 0, 0, 0, 0), self.full_time)._asdict() if self.full_time.total else {}
        return whole | {"saturated": self.full / max(self.windows, 1), "saturated_by": who, "saturated_shares": full}


class LinkBytes:
    """Bytes over some links, as the kernel counts them (Ethernet headers included).

    They are counted at the links' upper ends, which are in the trial's own namespace.
    """

    def __init__(self, network: Network, links: dict[str, list[LinkPlan]]) -> None:
        """Counting begins now. `links` have names for some of them together."""
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
        """The bytes "up" and "down" of each link since the beginning, in the order of the lower ends."""
        now = self._read()
        return {
            kind: [
                {way: after[way] - before[way] for way in WAYS} for before, after in zip(self.first[kind], now[kind], strict=True)
            ]
            for kind in self.interfaces
        }


def _thread_seconds(pid: int) -> dict[str, float]:
    """The seconds that each thread of a process has run; empty when it has ended."""
    seconds = {}
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            seconds[task.name] = int((task / "schedstat").read_text().split()[0]) / 1e9
    return seconds
