"""The model that a server holds, and what its updates are weighted with.

An update is the change that a worker's optimizer makes to the weights, divided by the number of workers. Momentum is each
worker's own. So updates are only added, and the sum of a set of updates does not depend on their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.floats import add
from inalab.hosts.updates.wire import Member


@dataclass
class Model:
    """`version` is how many updates are in the weights, (elements,)."""

    weights: NDArray[Any]
    version: int = 0

    def apply(self, members: Sequence[Member], update: NDArray[Any], weight: float = 1.0) -> int:
        """Add an update, or the sum of several. Returns the version before, up to which each member's delay counts.

        Those that are applied at once do not delay each other, as the gradients of a synchronous step do not.
        """
        before = self.version
        if weight != 1.0:
            update = update * np.float32(weight)
        add(self.weights, update)
        self.version += len(members)
        return before


def correction(delay: int, workers: int) -> float:
    """What an update is scaled by that is `delay` updates late (Zhang et al., IJCAI '16: the learning rate over the delay).

    An update is already divided by the number of workers. That suits the usual delay of workers - 1, if all are equally fast.
    Only later ones are scaled, so that in all they are divided by 1 + delay.
    """
    return workers / max(workers, 1 + delay)


def behind(clocks: Sequence[int], rank: int, staleness: int, absent: Sequence[int] = ()) -> list[int]:
    """Whom a worker waits for under stale synchronous parallel (Ho et al., NIPS '13), by how many updates of each are applied.

    A worker may be `staleness` updates ahead of the slowest; 0 is synchronous. No one waits for those that are absent.
    """
    return [other for other, clock in enumerate(clocks) if other not in absent and clocks[rank] - clock > staleness]
