"""Every system over TCP or UDP, and over RDMA: training throughput at equal link rates, and what hosts' processors handle.

RDMA's gain on hardware is the processor, which hands messages to the network interface. Here the interface is a thread of the
host's process, so only the number of messages tells of that gain. What packets and their loss cost is as on a network of this rate.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from inalab.schemes.scheme import Look
from inalab.testbed.draw.curves import Tolerance, bar, estimate, not_valid, values, words
from inalab.testbed.draw.plots import WIDTH, named, new_figure, readable
from inalab.testbed.measures import Measure, handled, predicted_throughput, throughput
from inalab.testbed.plan.experiment import Trial
from inalab.testbed.plan.sweep import Numbers, Point, SweepSettings, Words, paired
from inalab.testbed.record.runs import Run

PLAIN, RDMA = "TCP or UDP", "RDMA"
LOOKS = {PLAIN: Look(PLAIN, "#7d8597"), RDMA: Look(RDMA, "#d1762d")}
SYSTEMS: dict[str, dict[str, dict[str, Any]]] = {  # what is set, by transport
    "one server\n(N-to-1)": {over: {"scheme": "ps", "ps.servers": 1} for over in (PLAIN, RDMA)},
    "n servers": {over: {"scheme": "ps", "ps.servers": 4} for over in (PLAIN, RDMA)},
    "BytePS\n(N-to-N)": {over: {"scheme": "byteps", "byteps.partition": 16} for over in (PLAIN, RDMA)},
    "ring": {over: {"scheme": "ring"} for over in (PLAIN, RDMA)},
    "ATP": {PLAIN: {"scheme": "atp"}},
    "SwitchML": {PLAIN: {"scheme": "switchml"}, RDMA: {"scheme": "switchml-rdma"}},
}
OF_PREDICTED = Tolerance(0.8, 1.05)  # of the throughput that compute and bounds allow, without loss


class Settings(SweepSettings):
    """One rack of four; a model whose sums take a few times as long as its compute."""

    rates: Numbers = Field((0.0, 0.01), description="loss rates")
    systems: Words = Field(tuple(name.split("\n")[0] for name in SYSTEMS), description="which of them")
    racks: int = 1
    host_rate: float = 25.0
    k: int = 256
    slots: int = 32
    workload: str = "digits-mlp-large"
    compute_ms: float = 60.0
    steps: int = 8


QUICK: dict[str, Any] = {"systems": ("BytePS", "ring", "SwitchML"), "seeds": 1, "steps": 3}


def _of(settings: Any) -> list[str]:
    return [name for name in SYSTEMS if name.split("\n")[0] in settings["systems"]]


def trials(settings: Settings, seed: int) -> list[Trial]:
    """Each system over what it has, at every rate."""
    points = []
    for rate in settings.rates:
        for name in _of(settings.model_dump()):
            for over, changes in SYSTEMS[name].items():
                its = dict(changes)
                if over == RDMA and its["scheme"] != "switchml-rdma":
                    its[f"{its['scheme']}.transport"] = "rdma"
                label = f"{name.replace(chr(10), ' ')}, {over}, {100 * rate:g} %"
                points.append(Point(label, {"system": name, "over": over, "loss": rate}, its | {"loss": rate}))
    return paired(points, settings, seed)


def _bars(ax: Axes, run: Run, measure: Measure, rate: float, predicted: bool = False) -> None:
    """Groups by system, a bar for each transport."""
    systems = _of(run.record["settings"])
    for i, name in enumerate(systems):
        for j, over in enumerate(SYSTEMS[name]):
            at = i + 0.4 * (j - 0.5) * (len(SYSTEMS[name]) > 1)
            factors = {"system": name, "over": over, "loss": rate}
            bar(ax, at, values(run, measure, **factors), LOOKS[over])
            if predicted and (found := estimate(run, predicted_throughput, **factors)).n:
                ax.plot([at - 0.18, at + 0.18], [found.median] * 2, "k:", linewidth=1.6)
    ax.set_xticks(range(len(systems)), systems)


def figures(run: Run) -> Iterable[tuple[str, str, Figure]]:
    """Throughput at each rate, and what processors handle without loss."""
    rates = list(run.record["settings"]["rates"])
    figure, axes = new_figure(1, len(rates) + 1, (WIDTH, 2.1 * (len(rates) + 1)))
    for ax, rate in zip(axes, rates, strict=False):
        _bars(ax, run, throughput, rate, predicted=rate == 0)
        ax.set_ylabel(f"steps per second,\n{100 * rate:g} % loss")
    for look in LOOKS.values():
        axes[0].plot([], [], "s", color=look.colour, markersize=8, label=look.label)
    axes[0].plot([], [], "k:", linewidth=1.6, label="compute and bound")
    _bars(axes[-1], run, handled, rates[0])
    axes[-1].set_ylabel("a processor handles,\nper 1,000 elements")
    axes[-1].set_yscale("log")
    readable(axes[-1].yaxis)
    named(figure, axes)
    caption = (
        "Training steps per second over TCP (SwitchML and ATP: UDP) and over RDMA, on links of the same rate, and what a worker's "
        "processor sends and receives: segments, packets or messages. Servers' are not counted. Dotted: compute plus the scheme's "
        "bound. Over RDMA the network interface makes packets of messages. After a lost packet a queue pair of type RC sends "
        "everything from there on again."
    )
    yield "transports", caption, figure


def findings(run: Run) -> list[str]:
    """RDMA over the other transport, for each system and rate; and the share of the predicted throughput."""
    sentences = not_valid(run)
    for name in _of(run.record["settings"]):
        called = name.replace("\n", " ")
        for over in SYSTEMS[name]:
            near = estimate(run, lambda t: throughput(t) / predicted_throughput(t), system=name, over=over, loss=0.0)
            if near.n:
                sentences.append(f"{called}, {over}: {OF_PREDICTED.words(near, 'of the predicted throughput without loss')}.")
        if len(SYSTEMS[name]) == 1:
            continue
        for rate in run.record["settings"]["rates"]:
            one, other = (estimate(run, throughput, system=name, over=over, loss=rate) for over in (RDMA, PLAIN))
            work = [estimate(run, handled, system=name, over=over, loss=rate) for over in (RDMA, PLAIN)]
            sentences.append(
                f"{called}, {100 * rate:g} % loss: {words(one)} steps per second over RDMA, {words(other)} over {PLAIN}; "
                f"a processor handles {words(work[0], '.1f')} messages per 1,000 elements instead of {words(work[1], '.1f')}."
            )
    return sentences
