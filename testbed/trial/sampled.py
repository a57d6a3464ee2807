"""Whether a job's sums are sums: samples of them against the sum, in float64, of what the workers gave."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from schemes.scheme import Scheme

LARGEST = 2.0**31  # from here on a sum of int32 wraps, or saturates
LARGEST_FLOAT = float(np.finfo(np.float32).max)  # from here on a sum of float32 may be infinite
SAMPLE = "sample"  # of a step's record, see hosts.sampling


def compared(
    records: list[dict[str, Any]], workers: int, scheme: Scheme, settings: Any, what: str = "step"
) -> tuple[int, str]:  # fmt: skip
    """How many sampled elements of the records, which lose them, were compared; and what is wrong with the first wrong one, or "".

    A sum is wrong where it is farther from the one in float64 than the scheme states, or of integers and not equal to it. Steps
    (or `what` a record is of) that not all workers tell of, and those with a number that is not finite, are left out.
    """
    steps: dict[int, dict[int, dict[str, Any]]] = defaultdict(dict)
    for record in records:
        if sample := record.pop(SAMPLE, None):
            steps[record["step"]][record["rank"]] = sample
    count, wrong = 0, ""
    for step, samples in sorted(steps.items()):
        given = np.array([sample["given"] for sample in samples.values()])
        largest = float(np.max([sample["largest"] for sample in samples.values()]))  # NaN where any is
        if len(samples) < workers or not np.isfinite(largest):
            continue
        expected, allowed = given.sum(axis=0), scheme.sum_error(settings, workers, largest, np.abs(given).sum(axis=0))
        if any(sample["integers"] for sample in samples.values()):
            allowed = np.where(np.abs(expected) < LARGEST, 0.0, np.inf)
        allowed = np.where(np.abs(given).sum(axis=0) < LARGEST_FLOAT, allowed, np.inf)
        for rank, sample in sorted(samples.items()):
            got = np.array(sample["got"])
            count += int(np.isfinite(allowed).sum())
            off = np.flatnonzero(~(np.abs(got - expected) <= allowed))
            if len(off) and not wrong:
                at = off[0]
                wrong = (
                    f"in {what} {step + 1} element {sample['elements'][at]} of the sum is {got[at]:.9g} at worker {rank}, and the "
                    f"workers gave {expected[at]:.9g} in all: {scheme.name} does not sum as exactly as it states"
                )
    return count, wrong
