"""SwitchML and a ring at 100 Gbit/s, simulated, beside what was reported of SwitchML and NCCL on hardware.

Hosts take what was reported of DPDK (costs=dpdk), and switches nothing, because nothing was found that can be cited. What lies
between the two is what hosts do with packets, and that the report was read by eye.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matplotlib.figure import Figure
from pydantic import Field

from inalab.testbed.draw.curves import curve, estimate, levels, look_of, not_valid
from inalab.testbed.draw.plots import named, new_figure
from inalab.testbed.measures import metric
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Point, Sizes, SweepSettings, Words, paired
from inalab.testbed.record.runs import Run
from inalab.testbed.theory import reported

RUNS_ON = "simulated"
GIGA = metric("ate_per_second", 1e-9)
REPORTED = {"switchml": "switchml", "ring": "NCCL, RDMA"}  # by scheme: whose reported numbers are drawn beside it


class Settings(SweepSettings):
    """One rack at 100 Gbit/s; a tensor of 25 MB."""

    sizes: Sizes = Field((4, 8, 16), description="numbers of workers")
    schemes: Words = Field(("switchml", "ring"), description="what is simulated")
    seeds: int = 1
    racks: int = 1
    host_rate: float = 100_000.0
    k: int = 256
    slots: int = 256
    workload: str = "tensor-6250000"
    steps: int = 1
    costs: str = "dpdk"


QUICK: dict[str, Any] = {"workload": "tensor-1000000"}


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Both at every size."""
    points = [
        Point(f"{scheme}, {n} workers", {"scheme": scheme, "workers": n}, {"scheme": scheme, "workers": n})
        for n in settings.sizes
        for scheme in settings.schemes
    ]
    return paired(points, settings, seed)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Simulated lines; reported ones dashed."""
    figure, (ax,) = new_figure(1)
    for scheme in run.record["settings"]["schemes"]:
        look = look_of(scheme)
        curve(ax, run, "workers", GIGA, look, scheme=scheme)
        if name := REPORTED.get(scheme):
            whose = f"{look.label}, reported" if name == scheme else f"{name}, reported"
            ax.plot(
                *zip(*reported.ATE[name].items(), strict=True), "--", marker=look.marker, color=look.colour, alpha=0.6, label=whose
            )
    ax.axhline(reported.LINK_BOUND, color="black", linestyle=":", linewidth=1.2, label="link bound, reported")
    ax.set_xscale("log", base=2)
    at = levels(run, "workers")
    ax.set_xticks(at, [str(n) for n in at])
    ax.minorticks_off()
    ax.set_ylim(bottom=0)
    ax.set_facecolor("#ededed")
    ax.text(0.02, 0.02, "extrapolation", transform=ax.transAxes)
    ax.set_xlabel("workers")
    ax.set_ylabel("10⁹ ATE/s")
    named(figure, (ax,))
    rate = run.record["settings"]["host_rate"] / 1000
    caption = (
        f"Aggregated tensor elements per second at {rate:g} Gbit/s. Solid lines are simulated, with costs "
        f"{run.record['settings']['costs']}; dashed ones were reported, and read by eye from the benchmark picture of SwitchML's "
        "public code. The simulated ring is TCP's, with its headers; NCCL's is over RDMA. Shaded is extrapolation: nothing was "
        "measured here at this rate."
    )
    yield "scale_reported", caption, figure


def findings(run: Run) -> list[str]:
    """How far what was reported is from what links alone would take."""
    sentences = not_valid(run)
    for scheme, name in REPORTED.items():
        for n in levels(run, "workers"):
            found = estimate(run, GIGA, scheme=scheme, workers=n)
            if found.n and n in reported.ATE[name]:
                whose = look_of(scheme).label if name == scheme else name
                share, gained = reported.ATE[name][n] / found.median, f"{found.median:.2f} · 10⁹ ATE/s of {look_of(scheme).label}"
                sentences.append(f"{whose}, {n} workers: what was reported is {share:.2f} of the simulated {gained}.")
    return sentences or ["No size was simulated."]
