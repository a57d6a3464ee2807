"""ESA (Wang et al., 2022), our reading of it: ATP whose urgent packets take aggregators from less urgent chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inalab.schemes.atp import Atp
from inalab.schemes.scheme import Admitted, Look
from inalab.schemes.streaming import P4
from inalab.switches import atp
from inalab.switches.control import Control
from inalab.topologies.plan import NetworkPlan


class Esa(Atp):
    """The switches pre-empt (p4/include/esa/preemption.p4), by the priorities that workers give (hosts/atp/priority.c)."""

    name = "esa"
    look = Look("ESA", "#7a5195", "1")
    program = P4 / "esa.p4"
    prioritizes, protocol = True, "atp"

    def counted(self, control: Control, plan: NetworkPlan, name: str, jobs: Sequence[Admitted]) -> dict[str, Any]:
        """Likewise, and aggregators that the jobs have taken from others. Each is counted as a collision, too."""
        counted = super().counted(control, plan, name, jobs)
        taken = [atp.preemptions(control, job.plan.number) for job in jobs]
        return {**counted, "jobs": [events | {"preemptions": n} for events, n in zip(counted["jobs"], taken, strict=True)]}


SCHEME = Esa()
