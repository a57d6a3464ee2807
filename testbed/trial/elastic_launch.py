"""Scripts that begin again, on the hosts that are there, when a worker is lost or comes (`inalab launch --set elastic=yes`).

The launcher ends all scripts, admits the job with the workers that are there, and starts the scripts again, each with its rank
among them. A script goes on from its own checkpoint, as below torchrun. What the processes of before have left on the network is of
an earlier epoch, or of a job number that is admitted no more.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from inalab.hosts.collective import workers
from inalab.hosts.groups import SOCKET
from inalab.hosts.launch_files import LaunchFiles
from inalab.schemes.scheme import Admitted
from inalab.testbed.plan.faults import DISORDER
from inalab.testbed.plan.settings import SettingsError, TrialSettings
from inalab.testbed.trial.admission import AdmissionError, Admissions
from inalab.testbed.trial.deployment import Deployment
from inalab.testbed.trial.errors import TrialError
from inalab.testbed.trial.groups import Groups
from inalab.testbed.trial.hosted import Runner
from inalab.testbed.trial.processes import with_descendants

OF_LAUNCH = ("die", "hang", "restart", "down", "loss", "rate", *DISORDER)  # faults that scripts know nothing of
DOUBT = 1.0  # seconds after a script's failure in which it may turn out to follow from another one's death


def refuse(settings: TrialSettings, runner: Runner) -> None:
    """Raise SettingsError for what a launched script cannot have."""
    switches = ["any switch", *settings.plan().switches]
    for fault in settings.faults:
        of_switch = fault.whom in switches
        if fault.what not in OF_LAUNCH or (fault.what in ("die", "restart") and of_switch) or fault.step is not None:
            raise SettingsError(f"fault `{fault}` is of the project's own training: a script that is launched knows nothing of it")
        if fault.what == "hang" and fault.lasts is None and (runner is Runner.TORCHFT or not settings.elastic):
            raise SettingsError(f"fault `{fault}`: a script waits for one that hangs for as long as its groups do; give its length")
    for name in ("fallback", "checkpoint"):
        if getattr(settings, name) is not None:
            raise SettingsError(f"{name} is of the project's own training: leave it out")
    if settings.elastic and runner is Runner.TORCHRUN:
        raise SettingsError("elastic has the launcher start scripts again, which torchrun does otherwise: leave --torchrun out")


class Incarnations:
    """Of a launched job: with which workers, by their ranks among all, it is there now."""

    def __init__(self, deployment: Deployment, folder: Path) -> None:
        """Each has a folder of its own in that one, for what its scripts leave, and reaches who admits groups there, too."""
        self.folder = folder
        self.network, (self.whole,) = deployment.network, deployment.admitted
        self.admissions = Admissions(self.network.plan, self.whole, self.network.controls)
        self.members = set(range(self.whole.plan.size))
        self.number = 0
        self.job, self.groups = self._admitted()
        self.notes = self._notes()

    def next(self) -> None:
        """Another one, of the members as they are then. No process of the one before is there any more."""
        for admission in list(self.admissions.there):
            self.admissions.remove(admission)
        self.number += 1
        self.job, self.groups = self._admitted()
        self.notes = self._notes()

    def _notes(self) -> LaunchFiles:
        own = self.folder / str(self.number)
        own.mkdir()
        (own / SOCKET).symlink_to(self.folder / SOCKET)
        return LaunchFiles(own)

    def _admitted(self) -> tuple[Admitted, Groups]:
        """The job with the members, as the switches have it, and the groups that these form."""
        ranks = sorted(self.members)
        hosts = [self.whole.plan.hosts[rank] for rank in ranks]
        job = replace(self.whole, plan=replace(self.whole.plan, hosts=tuple(hosts), called=tuple(ranks)))
        try:
            job.scheme.check([job], self.network.plan)
            if job.scheme.program:
                job = self.admissions.admit(hosts, ranks, self.whole.plan.servers).job
        except (ValueError, AdmissionError) as error:
            raise TrialError(f"the scripts cannot go on, on {workers(ranks)}: {error}") from None
        return job, Groups(self.network.plan, job, self.network.controls, self.admissions)


def end_all(pids: Iterable[int]) -> None:
    """Kill these children, and what they have started, and wait for their ends."""
    for pid in pids:
        for each in with_descendants(pid)[::-1]:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        os.waitpid(pid, 0)
