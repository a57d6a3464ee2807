"""Jobs that come one after another, as a Poisson process has it, and share the switches' memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from inalab.schemes import registry
from inalab.testbed.plan.settings import SettingsError, named_scheme


def starts(number: int, gap: float, seed: int) -> list[float]:
    """When so many jobs come: the first at once, the others after gaps of `gap` seconds on average, exponentially distributed.

    Seconds, to the millisecond. Each `seed` has another sequence, of which fewer jobs are the first ones.
    """
    gaps = np.random.default_rng(seed).exponential(gap, number - 1)
    return [0.0, *np.round(np.cumsum(gaps), 3).tolist()]


def arriving(scheme: str, number: int, gap: float, seed: int, memory: int, window: int) -> dict[str, Any]:
    """A trial of so many jobs: what is set for that. Each has a worker in either of two racks.

    `memory` are cells of each switch, which the scheme gives to jobs; `window` is the most chunks that a job has under way.
    SettingsError for a scheme that takes no memory.
    """
    jobs = [{"start": start} for start in starts(number, gap, seed)]
    try:
        own = registry.find(named_scheme(scheme)).part_of_memory(memory, number, window)
    except NotImplementedError as error:
        raise SettingsError(str(error)) from None
    return {"scheme": scheme, "racks": 2, "workers": 1, "jobs": jobs, **own}
