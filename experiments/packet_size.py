"""TAT against the packet's size: k = 32, 64 and 256 integers, each against its bound (SwitchML's figure of MTU-sized packets)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.hosts.switchml import wire
from inalab.schemes.scheme import Look
from inalab.testbed.draw.curves import bound_line, curve, estimate, levels, look_of, matching, near_bound, not_valid, words
from inalab.testbed.draw.plots import COLOURS, named, new_figure
from inalab.testbed.measures import metric
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Integers, Point, SweepSettings, paired
from inalab.testbed.record.runs import Run
from inalab.testbed.theory import bounds

PAPER = {64: 75.7, 256: 92.6}  # network efficiency in %, on the talk's slides
MEASURED, PAYLOAD = replace(look_of("switchml"), label="SwitchML, measured"), Look("share of the values in a packet", COLOURS[0])
TAT = metric("tat_median", 1000)


class Settings(SweepSettings):
    """The window is the same in bytes at every k."""

    sizes: Integers = Field((32, 64, 256), description="integers in a packet")
    window: int = Field(8192, ge=256, description="integers under way: slots times k")
    racks: int = 1
    workload: str = "tensor-80000"
    steps: int = 10


QUICK: dict[str, Any] = {"seeds": 2, "steps": 5}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """One point for each k."""
    points = [Point(f"k = {k}", {"k": k}, {"k": k, "slots": max(1, settings.window // k)}) for k in settings.sizes]
    return paired(points, settings, seed)


def efficiency(trial: dict[str, Any]) -> float:
    """Share of the link's rate that carries the tensor, in %."""
    rate = trial["settings"]["host_rate"] * 1e6
    return float(100 * 32 * trial["metrics"]["elements"] / (trial["metrics"]["tat_median"] * rate))


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """TAT with its bound, and network efficiency with the paper's."""
    figure, (time, share) = new_figure(2)
    at = levels(run, "k")
    curve(time, run, "k", TAT, MEASURED, at.index)
    bound_line(
        time, range(len(at)), [1000 * bounds.of_trial(matching(run, k=k)[0]) for k in at], label="bound: packets on the wire"
    )
    time.set_ylabel("median TAT (ms)")
    curve(share, run, "k", efficiency, MEASURED, at.index)
    bound_line(share, range(len(at)), [100 * 32 * k / wire.bits_on_wire(k) for k in at], PAYLOAD, PAYLOAD.label)
    shown = [k for k in at if k in PAPER]
    share.plot([at.index(k) for k in shown], [PAPER[k] for k in shown], "k*", markersize=9, label="paper (slides)")
    share.set_ylabel("of the link's rate (%)")
    for ax in (time, share):
        ax.set_xticks(range(len(at)), [f"{k}\n({4 * k} B)" for k in at])
        ax.set_xlabel("integers in a packet")
        ax.set_ylim(bottom=0)
    named(figure, (time, share))
    caption = (
        "Aggregation time and the share of the link that carries the tensor: medians with intervals. The measured "
        "share lies below the packets' because a window of exponents goes ahead of the values."
    )
    yield "packet_size", caption, figure


def findings(run: Run) -> list[str]:
    """How near each k is to its bound."""
    sentences = not_valid(run)
    for k in levels(run, "k"):
        share = estimate(run, lambda t: bounds.of_trial(t) / t["metrics"]["tat_median"], k=k)
        paper = f" (paper: {PAPER[k]} % of values in a packet)" if k in PAPER else ""
        sentences.append(
            f"k = {k}: {near_bound('switchml').words(share, 'of its bound')}; the tensor takes "
            f"{words(estimate(run, efficiency, k=k), '.1f')} % of the "
            f"link, values are {100 * 32 * k / wire.bits_on_wire(k):.1f} % of a packet on the wire{paper}."
        )
    return sentences
