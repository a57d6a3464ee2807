"""The embedded target's costs: fitted on trials of two and four workers, and kept with what was measured (costs.json,
measured.json), so that anybody can repeat the comparison.

Of packets, the sum of squares of log(simulated / measured) is least over the points that are to be fitted. Costs start from a first
guess and stay near it, by a weight that is small, where no point tells of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from inalab.testbed.record.runs import Run, write_whole
from inalab.testbed.simulator import costs, validation
from inalab.testbed.simulator.validation import Compared, Measured, by_packets

MEASURED = Path(__file__).parent / "measured.json"
FIRST = {"host": 5e-6, "batch": 2e-4, "switch": 5e-6, "delay": 1e-5}  # seconds
PAGE = """# How far the simulator can be trusted

`inalab simulate --validate --write docs/reference/validation.md` writes this page. Experiment `validation` measures the points, and
`inalab simulate --calibrate RUN` fits the costs on those of two and four workers. Everything else is held out.

**Costs** in microseconds: {seconds}; {origin}. Those of packets began from a first guess,
{guess}, and stay near it where the points tell little of them: at these rates times are the links', and hosts and
switches take a small part. A message's is the best of {tried} between {least} and {greatest} µs.

**The gate**: the median of a scheme's held-out errors, without signs, is at most {most}, and no flip is its own. A flip is a pair
of schemes whose measured intervals do not overlap, and whose simulated times are in the other order, by more than 1 %; it is of the
one whose error is the greater. Less is a tie, and counts for nothing: the simulator gives no order there. A scheme that fails
should not be compared with others by the simulator.

What goes over TCP goes in segments, over links that are token buckets as the testbed sets them, and in windows that stay as they
are: 18 to 22 segments, drawn for each connection. No program fits these numbers: they were chosen with the points of an earlier run
known. Captures show bursts of 12 to 31 segments, and 20 suit well. It takes unequal windows for halving-doubling to fall out of
step, as it does when measured: the worker with the smaller window waits for acknowledgments behind the other's data. The points
below were measured after that choice.

Halving-doubling, asynchronous SGD and SSP depend on it most, and vary most from seed to seed. When all workers send at once and
then all fetch, links are idle one way; when they are out of step, links are busy both ways. Measured, they get out of step less,
and on fast links more, than here. Gloo takes about a window longer than its ring, and the way it requests segments, explain.

**In virtual time** (`--target virtual`) the real protocols and programs run on links that are token buckets, over a model of TCP.
Nothing is fitted there but the time from a link to the next node. Workers do not wait for a processor, so it is ahead of what is
measured the more workers there are. Where all begin at the same moment they stay in step: so halving-doubling is much faster, and
asynchronous SGD settles in other orders. `inalab simulate --calibrate RUN` keeps a run of experiment `validation` on that target.

| scheme | held out | median error | worst | verdict | median error in virtual time | worst |
|---|---:|---:|---:|---|---:|---:|"""
TRIED = np.geomspace(1e-5, 3.2e-3, 11)  # seconds of a message
NEAR = 0.002  # weight of a cost's distance from the first guess, in factors of e


def keep(run: Run) -> None:
    """Fit the costs on a run of experiment validation, and write both files. Raises ValueError where it has no point for that."""
    points = validation.measured(run)
    if not any(point.fitted for point in points):
        raise ValueError("the run has no valid trial of two or four workers to fit the costs on")
    known, machine = fit([point for point in points if point.fitted]), run.record["machine"]
    origin = (
        f"fitted on trials of 2 and 4 workers, target embedded, {run.record['started'][:10]}, commit "
        f"{str(run.record['git'].get('commit', 'unknown'))[:12]}, {machine['processor']}, {machine['cores']} cores"
    )
    seconds = {name: float(f"{cost:.3g}") for name, cost in known.items()}
    points = _with_virtual(points, {(point.scheme, point.point): point.virtual for point in measured()})
    written = {"embedded": {"seconds": seconds, "origin": origin}}
    write_whole(costs.PATH, json.dumps(written, indent=2) + "\n")
    lacking = sorted(set(run.record["trials"]) - {f"{point.scheme}, {point.point}" for point in points})
    costs.forget()
    compared = validation.compare(points, costs.of("embedded"))
    _keep({"origin": origin, "lacking": lacking, "failed": failing(compared), "points": validation.record(points)})


def keep_virtual(run: Run) -> None:
    """Keep the times of a run of experiment validation on target virtual beside what was measured; nothing is fitted."""
    found: dict[tuple[str, str], float | None] = {(p.scheme, p.point): p.median for p in validation.measured(run)}
    _keep(_record() | {"points": validation.record(_with_virtual(measured(), found))})


def _with_virtual(points: Sequence[Measured], known: Mapping[tuple[str, str], float | None]) -> list[Measured]:
    return [replace(point, virtual=known.get((point.scheme, point.point))) for point in points]


def _keep(record: dict[str, Any]) -> None:
    write_whole(MEASURED, json.dumps(record, indent=1) + "\n")
    _record.cache_clear()


def fit(points: Sequence[Measured]) -> dict[str, float]:
    """The costs in seconds with which the simulated times are nearest to the measured ones.

    Those of packets are fitted on schemes whose packets are simulated. A message's is the best of those that are TRIED, by the sum
    of the errors without their signs: times over TCP are no smooth function of it, where nodes get out of step.
    """
    names = list(FIRST)
    of_packets = [point for point in points if by_packets(point.scheme)]
    over_tcp = [point for point in points if not by_packets(point.scheme)]

    def errors(points: Sequence[Measured], seconds: dict[str, float]) -> list[float]:
        known = costs.emulated(seconds, "")
        return [math.log(validation.simulated(point, known) / point.median) for point in points]

    def packets(logs: NDArray[np.float64]) -> list[float]:
        found = errors(of_packets, {**dict(zip(names, np.exp(logs).tolist(), strict=True)), "message": 0.0})
        return [*found, *(NEAR * (logs - first))]

    first = np.log([FIRST[name] for name in names])
    best = least_squares(packets, first, diff_step=0.05, max_nfev=40)
    seconds = dict(zip(names, np.exp(best.x).tolist(), strict=True))
    message = min(TRIED, key=lambda tried: sum(map(abs, errors(over_tcp, {**seconds, "message": tried}))))
    return {**seconds, "message": float(message)}


def measured() -> list[Measured]:
    """What was measured."""
    return validation.from_record(_record()["points"])


def failing(found: Sequence[Compared]) -> list[str]:
    """The schemes that fail the gate (validation.passes)."""
    return [scheme for scheme in dict.fromkeys(c.scheme for c in found) if not validation.passes(found, scheme)]


def failed() -> list[str]:
    """Those that failed it when measured.json was written; figures draw them pale. A test compares them with the simulator's."""
    found: list[str] = _record()["failed"]
    return found


@cache
def _record() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(MEASURED.read_text())
    return found


def page(found: Sequence[Compared]) -> str:
    """The comparison as a page of the documentation."""
    costs_ = json.loads(costs.PATH.read_text())["embedded"]
    seconds, guess = (_in_microseconds(its) for its in (costs_["seconds"], FIRST))
    tried = {"tried": len(TRIED), "least": f"{1e6 * TRIED[0]:.0f}", "greatest": f"{1e6 * TRIED[-1]:,.0f}"}
    most = f"{100 * validation.MOST_ERROR:.0f} %"
    lines = [PAGE.format(seconds=seconds, guess=guess, origin=costs_["origin"], most=most, **tried)]
    for scheme in dict.fromkeys(c.scheme for c in found):
        if errors := validation.held_out(found, scheme):
            verdict = "passes" if validation.passes(found, scheme) else "**fails**"
            middle, worst = 100 * median(map(abs, errors)), 100 * max(errors, key=abs)
            virtual = [100 * c.virtual_error for c in found if c.scheme == scheme and c.virtual_error is not None]
            aside = f"{median(map(abs, virtual)):.1f} % | {max(virtual, key=abs):+.1f} %" if virtual else "– | –"
            lines.append(f"| {scheme} | {len(errors)} | {middle:.1f} % | {worst:+.1f} % | {verdict} | {aside} |")
    flips, apart = validation.flips(found), validation.pairs(found)
    wording = (
        f"**Flips**: {len(flips)} of {len(apart)} pairs whose order was measured. Of the {len(apart)}, {validation.tied(found)}."
    )
    lines += ["", wording, "", f"No trial was valid at: {'; '.join(_record()['lacking']) or 'no point is lacking'}.", ""]
    for a, b in flips:
        was, is_now = (f"{1000 * x:.0f} and {1000 * y:.0f} ms" for x, y in _both(a, b))
        lines.append(f"- At {a.point}, {a.scheme} was faster than {b.scheme} ({was}), and is simulated as slower ({is_now}).")
    heads = "scheme", "point", "measured TAT, ms", "simulated", "error", "in virtual time", "error"
    lines += ["", f"| {' | '.join(heads)} |", "|---|---|---:|---:|---:|---:|---:|"]
    for c in found:
        m, point = c.measured, c.point + (" (fitted)" if c.fitted else "")
        lines.append(
            f"| {c.scheme} | {point} | {1000 * m.median:.1f}{m.between} | {1000 * c.simulated:.1f} | {100 * c.error:+.1f} % "
            f"| {_virtual(c)} |"
        )
    return "\n".join(lines) + "\n"


def _virtual(c: Compared) -> str:
    if c.measured.virtual is None or c.virtual_error is None:
        return "– | –"
    return f"{1000 * c.measured.virtual:.1f} | {100 * c.virtual_error:+.1f} %"


def _in_microseconds(seconds: dict[str, float]) -> str:
    return ", ".join(f"{name} {1e6 * cost:.3g}" for name, cost in seconds.items())


def _both(a: Compared, b: Compared) -> tuple[tuple[float, float], tuple[float, float]]:
    """The two measured times, and the two simulated ones."""
    return (a.measured.median, b.measured.median), (a.simulated, b.simulated)
