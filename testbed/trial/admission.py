"""Jobs that the switches admit while packets flow, each under a number and with memory of its own, until it is removed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from inalab.schemes.scheme import Admitted
from inalab.switches.control import Control, ControlError
from inalab.switches.installation import Installation
from inalab.topologies.jobs import JobPlan
from inalab.topologies.plan import HostPlan, NetworkPlan

FIRST_PORT = 49152  # of UDP, for jobs by their numbers: a host may be in several (RFC 6335's dynamic ports)


class AdmissionError(Exception):
    """The switches do not admit a job; str() is a sentence."""


@dataclass
class Admission:
    """A job, an epoch for its group that no earlier job of its number has had, and what was added to switches, by their names."""

    job: Admitted
    epoch: int
    installed: dict[str, Installation] = field(default_factory=dict)

    def remove(self) -> None:
        """Free its number and its memory. A switch that is there no more has nothing of it."""
        for installation in self.installed.values():
            with suppress(ControlError):
                installation.remove()


class Admissions:
    """Of jobs of a scheme. `controls` are of the switches, by name; `taken` are numbers of jobs that are there already."""

    def __init__(self, plan: NetworkPlan, job: Admitted, controls: Mapping[str, Control], taken: Sequence[int] = ()) -> None:
        self.plan, self.scheme, self.settings, self.controls = plan, job.scheme, job.settings, controls
        self.taken, self.there = set(taken), list[Admission]()
        self.epochs = itertools.count(1)

    def admit(self, hosts: Sequence[HostPlan], called: Sequence[int], servers: Sequence[HostPlan] = ()) -> Admission:
        """A job of these workers, by their ranks in it, and servers. All switches have its entries when this returns.

        Raises AdmissionError where a switch has no room, or refuses it. None has any of its entries then.
        """
        there = self.taken | {each.job.plan.number for each in self.there}
        most = self.scheme.most_jobs(self.settings)
        if not most:
            raise AdmissionError(f"scheme {self.scheme.name} admits no jobs while packets flow")
        number = next((n for n in range(most) if n not in there), None)
        if number is None:
            raise AdmissionError(f"the switches hold {most} jobs and groups at once, and all are in use")
        plan = JobPlan(number, tuple(hosts), tuple(servers), port=FIRST_PORT + number, called=tuple(called))
        made = Admission(Admitted(plan, self.scheme, self.settings), next(self.epochs))
        try:
            for name, control in self.controls.items():
                made.installed[name] = Installation(control)
                self.scheme.admit(made.installed[name], self.plan, name, made.job)
        except ControlError as error:
            made.remove()
            raise AdmissionError(str(error)) from None
        self.there.append(made)
        return made

    def forget(self, switch: str) -> None:
        """It has nothing of any job any more."""
        for admission in self.there:
            admission.installed.pop(switch, None)

    def remove(self, admission: Admission) -> None:
        """Its workers have left, and send nothing more."""
        admission.remove()
        self.there.remove(admission)
