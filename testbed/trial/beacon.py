"""What a trial under way leaves in its namespaces so that `inalab watch` finds it: its settings, and where its switches listen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from hosts import gauge
from schemes.scheme import Admitted
from switches.sockets import socket_directory
from testbed.plan.settings import TrialSettings, make_settings, named_scheme
from topologies.plan import NetworkPlan

BEACON = Path("/run/inalab-trial.json")  # the trial's own /run


@dataclass(frozen=True)
class RunningTrial:
    """`pid` is of one of its processes; `sockets` are its switches' and `gauges` its hosts': folders, as seen from outside."""

    pid: int
    settings: TrialSettings
    sockets: Path
    gauges: Path

    def watched(self, plan: NetworkPlan) -> list[Admitted]:
        """The jobs whose scheme's program the switches run."""
        running = self.settings.running()
        return [job for job in self.settings.admitted(plan) if job.scheme is running]


def leave(settings: TrialSettings) -> None:
    """Leave the beacon; call it inside the trial's namespaces."""
    content = {"settings": settings.model_dump(mode="json", exclude_defaults=True), "sockets": str(socket_directory())}
    gauge.FOLDER.mkdir(exist_ok=True)
    BEACON.write_text(json.dumps(content))


def trials() -> Iterator[RunningTrial]:
    """The trials that run on this machine and belong to this user, the newest first."""
    seen: set[int] = set()
    for process in sorted(psutil.process_iter(["pid", "create_time"]), key=lambda p: -p.info["create_time"]):
        root = Path(f"/proc/{process.pid}/root")
        beacon = root / BEACON.relative_to("/")
        try:
            inode = beacon.stat().st_ino ^ beacon.stat().st_dev << 32
            if inode in seen:
                continue
            content = json.loads(beacon.read_text())
            named_scheme(content["settings"].get("scheme", "switchml"))
            settings = make_settings(TrialSettings, content["settings"])
        except (OSError, ValueError, KeyError):
            continue
        seen.add(inode)
        yield RunningTrial(
            process.pid, settings, root / Path(content["sockets"]).relative_to("/"), root / gauge.FOLDER.relative_to("/")
        )
