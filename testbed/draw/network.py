"""A network as settings make it: switches, hosts, rates, and where losses and stragglers act."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from inalab.testbed.draw.plots import COLOURS
from inalab.testbed.plan.settings import SettingsError, TrialSettings
from inalab.topologies.plan import LinkPlan, NetworkPlan, SwitchPlan

WIDTH, HEIGHT = 0.9, 1.5  # inches of a host, and of a level
SWITCH, WORKER, SERVER, FAULT = COLOURS[0], COLOURS[1], COLOURS[5], COLOURS[3]
MOST_HOSTS = 64  # that can be told apart

Places = dict[str, tuple[float, float]]


def network_figure(settings: TrialSettings) -> Figure:
    """The network of these settings. Raises SettingsError where it has more hosts than can be told apart."""
    plan = settings.plan()
    if len(plan.everyone) > MOST_HOSTS:
        raise SettingsError(f"the network has {len(plan.everyone)} hosts: up to {MOST_HOSTS} can be drawn")
    places = _places(plan)
    levels = len({y for _, y in places.values()})
    figure = Figure(figsize=(max(5.0, WIDTH * len(plan.everyone)), HEIGHT * levels), layout="constrained")
    axes = figure.subplots()
    _links(axes, plan, places, settings.loss)
    _nodes(axes, plan, places, settings)
    axes.set_axis_off()
    axes.margins(0.06, 0.16)
    return figure


def _places(plan: NetworkPlan) -> Places:
    """Hosts in a row, by rack; each switch above the middle of what is below it."""
    places: Places = {}
    ordered = sorted(plan.everyone, key=lambda host: (host.rack, host.rank))
    for number, host in enumerate(ordered):
        places[host.name] = (number + 0.5 * host.rack, 0.0)
    for level, switches in enumerate(filter(None, (*_inside(plan), plan.racks, plan.pods, plan.roots)), start=1):
        for number, switch in enumerate(switches):
            below = [places[a.peer][0] for a in switch.attachments if a.upper and places.get(a.peer, (0.0, level))[1] < level]
            beside = 1.5 * (number - (len(switches) - 1) / 2) if switches is plan.roots else 0.0
            places[switch.name] = (sum(below) / len(below) + beside, float(level))
    return places


def _inside(plan: NetworkPlan) -> list[list[SwitchPlan]]:
    """Switches inside racks in levels: those with hosts below them, and then the others."""
    with_hosts = [s for s in plan.inner if any(a.peer not in plan.switches for a in s.attachments)]
    return [with_hosts, [s for s in plan.inner if s not in with_hosts]]


def _links(axes: Axes, plan: NetworkPlan, places: Places, loss: float) -> None:
    """Lines between nodes. The rate stands at the first link of a switch to what is above, and at the first of a rack's hosts and
    those whose rate is another than that of the one before."""
    labelled = {link.number for link in plan.links if link.lower in plan.switches and link is _first(plan, link.lower)}
    for rack in plan.racks:
        rate = None
        for link in (link for link in plan.links if link.upper == rack.name and link.lower not in plan.switches):
            labelled |= {link.number} if link.rate != rate else set()
            rate = link.rate
    for link in plan.links:
        (x, y), (above, top) = places[link.lower], places[link.upper]
        axes.plot([x, above], [y, top], color="#9a9a9a", linewidth=1.2, zorder=1)
        if loss and plan.loses(link.number):
            axes.plot([(x + above) / 2], [(y + top) / 2], marker="x", color=FAULT, markersize=5, zorder=2)
        if link.number in labelled and link.rate is not None:
            away, side = ("right", -5) if x <= above else ("left", 5)
            axes.annotate(
                f"{link.rate:g} Mbit/s", (x + (above - x) / 4, y + (top - y) / 4), xytext=(side, 0), textcoords="offset points",
                ha=away, va="bottom" if y == top else "center", fontsize=8, color="#444444", zorder=2,
            )  # fmt: skip
    if loss:
        wording = f"× loses {100 * loss:g} % of the packets, each way"
        axes.annotate(wording, (1, 1), xycoords="axes fraction", ha="right", va="top", fontsize=9, color=FAULT)


def _first(plan: NetworkPlan, lower: str) -> LinkPlan:
    return next(link for link in plan.links if link.lower == lower)


def _nodes(axes: Axes, plan: NetworkPlan, places: Places, settings: TrialSettings) -> None:
    straggler = settings.straggler_model()
    for name, (x, y) in places.items():
        if name in plan.switches:
            colour, text, shape = SWITCH, f"{name}\nP4", "round,pad=0.45"
        else:
            colour, text, shape = (SERVER if name in {server.name for server in plan.servers} else WORKER), name, "circle,pad=0.35"
            if name == f"h{straggler.rank}" and straggler.kind == "slow":
                colour = FAULT
        box = {"boxstyle": shape, "facecolor": colour, "edgecolor": "none"}
        axes.annotate(text, (x, y), ha="center", va="center", fontsize=9, color="white", bbox=box, zorder=3)
        axes.plot([x], [y], alpha=0)  # the limits include it
    if straggler.kind == "slow":
        wording, under = f"computes {straggler.factor:g}× as long", places[f"h{straggler.rank}"]
        axes.annotate(wording, under, xytext=(0, -26), textcoords="offset points", ha="center", fontsize=9, color=FAULT)
    elif straggler.kind != "none":
        wording = f"every worker's compute times are {straggler.kind}"
        axes.annotate(wording, (0.5, 0), xycoords="axes fraction", ha="center", va="bottom", fontsize=9, color=FAULT)
