"""A group's way to the scheme: its place in the network, its collective there, and the thread that its calls take turns in."""

from __future__ import annotations

from contextlib import suppress

from inalab.hosts.collective import Collective, Operation
from inalab.hosts.groups import Formation, GroupControl
from inalab.hosts.in_turn import InTurn
from inalab.hosts.place import Place, Pulse
from inalab.hosts.sampling import ScriptSampling
from inalab.hosts.virtual_script import SimulatedSums, Simulation


class Channel:
    """Calls over the scheme that are carried in their order. The calls of another channel pass them by."""

    def __init__(
        self, place: Place, epoch: int, pulse: Pulse, sampling: ScriptSampling | None, simulation: Simulation | None,
        formation: Formation | None = None, groups: GroupControl | None = None,
    ) -> None:  # fmt: skip
        """`formation` is how `groups` admitted it, where it is not the job's own. Raises AggregationError."""
        self.place, self.epoch, self.formation, self.groups = place, epoch, formation, groups
        self.pulse, self.leaving = pulse, ""  # why what is under way is given up, at the end
        self.collective: Collective | SimulatedSums
        self.sums: InTurn | SimulatedSums
        if simulation is not None:
            self.collective = self.sums = SimulatedSums(simulation, sampling, formation)
            return
        try:
            self.collective = place.scheme.join(place, epoch, self._reason if pulse else None)
        except BaseException:
            self._depart()
            raise
        self.sums = InTurn(self.collective, place.driver, sampling)
        self.sums.begin()

    def has(self, operation: Operation) -> bool:
        """Whether the scheme has it, in such a job."""
        return operation in self.place.scheme.operations_in(self.place.membership)

    def end(self, patience: float) -> None:
        """Wait up to so many seconds for what is under way, then give it up, and leave.

        A part of the switches whose thread does not end is never another group's.
        """
        over = self.sums.end(patience)
        if not over and self.pulse:
            self.leaving = f"its group was destroyed {patience:g} s ago"
            over = self.sums.end(patience)
        if over:
            self._depart()

    def _reason(self) -> str | None:
        """A reason to give up."""
        return self.leaving or (self.pulse() if self.pulse else None)

    def _depart(self) -> None:
        if self.formation and self.groups:
            with suppress(OSError):
                self.groups.depart(self.formation)
