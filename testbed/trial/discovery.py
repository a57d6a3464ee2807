"""What a trial under way leaves in its namespaces so that `inalab watch` finds it: its settings, and where its switches listen.

The record is found in the mount namespace of a process of this user alone. What stands there is data all the same, because such a
process may live in a container whose files are somebody else's: it is read without blocking and up to a size, and names no code
that is run. A scheme from outside the package is watched where its file is named to `inalab watch`.
"""

from __future__ import annotations

import json
import os
import stat
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from inalab.hosts import gauge
from inalab.schemes import registry
from inalab.schemes.scheme import Admitted
from inalab.switches.sockets import socket_directory
from inalab.testbed.plan.settings import SettingsError, TrialSettings, make_settings
from inalab.topologies.plan import NetworkPlan

BEACON = Path("/run/inalab-trial.json")  # the trial's own /run
MOST_BYTES = 1 << 20
MOST_GAUGES = 4096


@dataclass(frozen=True)
class RunningTrial:
    """`pid` is of one of its processes; `sockets` are its switches' and `gauges` its hosts': folders, as seen from outside."""

    pid: int
    settings: TrialSettings
    sockets: Path
    gauges: Path

    def watched(self, plan: NetworkPlan) -> list[Admitted]:
        """The jobs of the schemes that the switches' program serves."""
        running = self.settings.running()
        return [job for job in self.settings.admitted(plan) if job.scheme in running.schemes]

    def shown(self) -> dict[str, float]:
        """The values of all its gauges, by name."""
        found = {}
        for path in sorted(self.gauges.glob("*"))[:MOST_GAUGES]:
            with suppress(OSError, struct.error):
                (found[path.name],) = gauge.NUMBER.unpack(read(path)[0])
        return found


def announce(settings: TrialSettings) -> None:
    """Leave the record; call it inside the trial's namespaces."""
    given = settings.model_dump(mode="json", exclude_defaults=True)
    files = sorted({job.of_scheme().source for job in settings.each()} & set(registry.added()))
    gauge.FOLDER.mkdir(exist_ok=True)
    BEACON.write_text(json.dumps({"settings": given, "sockets": str(socket_directory()), "scheme_files": files}))


def trials(processes: Iterable[psutil.Process] | None = None) -> Iterator[RunningTrial]:
    """The trials that run on this machine, or that these processes are of, and belong to this user; the newest first.

    Raises SettingsError at one whose scheme is a file's that has not been added.
    """
    seen: set[tuple[int, int]] = set()
    looked_at = psutil.process_iter() if processes is None else processes
    for process in sorted(looked_at, key=lambda p: -p.create_time()):  # which a process knows of its beginning on
        root = Path(f"/proc/{process.pid}/root")
        try:
            if set(process.uids()) != {os.geteuid()}:
                continue
            data, identity = read(root / BEACON.relative_to("/"))
            if identity in seen:
                continue
            content = json.loads(data)
            files, sockets = content["scheme_files"], Path(content["sockets"])
            if ".." in sockets.parts or not all(isinstance(file, str) for file in files):
                continue
            if unknown := set(files) - set(registry.added()):
                raise UnknownSchemeError(
                    f"the trial runs a scheme of yours: inalab watch --scheme {next(iter(unknown))!r} shows it"
                )
            settings = make_settings(TrialSettings, content["settings"])
            settings.check()
        except UnknownSchemeError:
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, psutil.Error):
            continue
        seen.add(identity)
        yield RunningTrial(process.pid, settings, root / sockets.relative_to("/"), root / gauge.FOLDER.relative_to("/"))


class UnknownSchemeError(SettingsError):
    """A trial runs a scheme whose code is not run unasked."""


def read(path: Path) -> tuple[bytes, tuple[int, int]]:
    """What stands in a file that others may have made, and which file it is. OSError for what is none, and beyond MOST_BYTES."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:
            raise OSError(f"{path} is no file of at most {MOST_BYTES} bytes")
        return file.read(MOST_BYTES), (found.st_dev, found.st_ino)
