"""Simulated sums beside measured ones: signed errors, and pairs of schemes whose order the simulator has wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from statistics import median
from typing import Any

from inalab.schemes import registry
from inalab.testbed.plan.settings import TrialSettings
from inalab.testbed.record.runs import Run
from inalab.testbed.record.statistics import Interval, median_interval
from inalab.testbed.simulator.computed import computed_trial
from inalab.testbed.simulator.costs import Known

MOST_ERROR = 0.1  # the median of a scheme's held-out errors, without their signs
TIE = 0.01  # simulated times that differ by less, as a share, have no order


@dataclass(frozen=True)
class Measured:
    """A point that was measured: TAT in seconds, its median over seeds and between what it lies; and the trial's settings.

    `virtual` is its median TAT in virtual time, where that is known.
    """

    scheme: str
    point: str
    fitted: bool
    seeds: tuple[int, ...]
    median: float
    low: float
    high: float
    settings: dict[str, Any]
    virtual: float | None = None

    @property
    def interval(self) -> Interval:
        return Interval(self.median, self.low, self.high, len(self.seeds))

    @property
    def between(self) -> str:
        """Between what it lies, in ms, for a table; nothing where there are too few seeds to tell."""
        return f" ({1000 * self.low:.1f} to {1000 * self.high:.1f})" if self.interval.known else ""


@dataclass(frozen=True)
class Compared:
    """A measured point, and its simulated TAT in seconds."""

    measured: Measured
    simulated: float

    @property
    def scheme(self) -> str:
        return self.measured.scheme

    @property
    def point(self) -> str:
        return self.measured.point

    @property
    def fitted(self) -> bool:
        return self.measured.fitted

    @property
    def error(self) -> float:
        """Simulated over measured, minus one."""
        return self.simulated / self.measured.median - 1

    @property
    def virtual_error(self) -> float | None:
        """Likewise, in virtual time."""
        return None if self.measured.virtual is None else self.measured.virtual / self.measured.median - 1


def measured(run: Run) -> list[Measured]:
    """The points of a run of experiment validation that have valid trials."""
    named: dict[str, list[dict[str, Any]]] = {name: [] for name in run.record["trials"]}
    for trial in run.finished:
        if trial["valid"]:
            named.setdefault(trial["name"], []).append(trial)
    found = []
    for trials in filter(None, named.values()):
        interval, factors = median_interval([t["metrics"]["tat_median"] for t in trials]), trials[0]["factors"]
        found.append(
            Measured(
                factors["scheme"], factors["point"], factors["fitted"], tuple(t["seed"] for t in trials), interval.median,
                interval.low, interval.high, trials[0]["settings"],
            )
        )  # fmt: skip
    return found


def by_packets(scheme: str) -> bool:
    """Whether a scheme is simulated packet by packet."""
    return registry.find(scheme).simulated().of_packets


def simulated(point: Measured, costs: Known) -> float:
    """The point's TAT in seconds, the median over the same seeds."""
    settings = TrialSettings(**point.settings)
    varies = settings.loss or settings.straggler != "none" or not by_packets(point.scheme)
    seeds = point.seeds if varies else point.seeds[:1]  # else all are alike
    return median(float(computed_trial(settings, seed, costs)["metrics"]["tat_median"]) for seed in seeds)


def compare(points: Iterable[Measured], costs: Known) -> list[Compared]:
    """All points with their simulated times."""
    return [Compared(point, simulated(point, costs)) for point in points]


def pairs(found: Sequence[Compared]) -> list[tuple[Compared, Compared]]:
    """Two schemes at a point whose measured intervals do not overlap, the faster one first."""
    apart = []
    for a, b in combinations(found, 2):
        first, second = sorted((a, b), key=lambda c: c.measured.median)
        if a.point == b.point and a.scheme != b.scheme and first.measured.high < second.measured.low:
            apart.append((first, second))
    return apart


def flips(found: Sequence[Compared]) -> list[tuple[Compared, Compared]]:
    """Pairs whose order is simulated the other way round."""
    return [(a, b) for a, b in pairs(found) if a.simulated > (1 + TIE) * b.simulated]


def ties(found: Sequence[Compared]) -> list[tuple[Compared, Compared]]:
    """Pairs that are simulated as alike."""
    return [(a, b) for a, b in pairs(found) if abs(a.simulated / b.simulated - 1) <= TIE]


def held_out(found: Sequence[Compared], scheme: str) -> list[float]:
    """A scheme's signed errors where the costs were not fitted."""
    return [c.error for c in found if c.scheme == scheme and not c.fitted]


def passes(found: Sequence[Compared], scheme: str) -> bool:
    """Whether the simulator may be trusted with a scheme: its median error is small, and no flip is its own.

    A flip is of the scheme of the two whose error is the greater there.
    """
    errors = held_out(found, scheme)
    own = [max(pair, key=lambda c: abs(c.error)).scheme for pair in flips(found)]
    return bool(errors) and median(map(abs, errors)) <= MOST_ERROR and scheme not in own


def verdicts(found: Sequence[Compared]) -> list[str]:
    """A sentence for each scheme, and for each pair whose winner flips."""
    sentences = []
    for scheme in dict.fromkeys(c.scheme for c in found):
        if not (errors := held_out(found, scheme)):
            sentences.append(f"{scheme}: no point was held out.")
            continue
        worst = max(errors, key=abs)
        word = "passes" if passes(found, scheme) else "FAILS"
        sentences.append(
            f"{scheme}: {word}; median error {100 * median(map(abs, errors)):.1f} % over {len(errors)} held-out points, "
            f"worst {100 * worst:+.1f} %."
        )
    sentences += [f"At {a.point} {a.scheme} was faster than {b.scheme}, and is simulated as slower." for a, b in flips(found)]
    return [*sentences, f"Of {len(pairs(found))} pairs whose order was measured, {tied(found)}."]


def tied(found: Sequence[Compared]) -> str:
    """How many pairs are simulated as alike, in words."""
    alike = ties(found)
    other = sum(a.simulated > b.simulated for a, b in alike)
    return f"{len(alike)} are simulated as ties, within {100 * TIE:g} %, {other} of them with the other one ahead"


def record(points: Sequence[Measured]) -> list[dict[str, Any]]:
    """The points for a file."""
    return [asdict(point) for point in points]


def from_record(points: Iterable[dict[str, Any]]) -> list[Measured]:
    """What `record` has written."""
    return [Measured(**{**point, "seeds": tuple(point["seeds"])}) for point in points]
