"""Messages between hosts as flows that share links max–min fairly (Bertsekas and Gallager, Data Networks, section 6.5.2).

Moves go in steps, as in hosts.tcp.schedules: a node's step begins when all moves to it in the step before have come. All that one
node sends another in a step is one flow. A connection's flows go one after another. Acknowledgments load the way back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hosts.compiled import compiled
from testbed.simulator.events import pop, push

ALIKE = 1e-9  # moments that differ by less are one, as a share of the time until then; a flow of which less is left has ended
UNLIMITED = 1e18  # bits a second


@dataclass(frozen=True)
class Route:
    """What a flow takes of links: directions of links, 2 * link + direction, how much of its rate it takes of each; and how many
    links it crosses itself, which come first: on the others are its acknowledgments."""

    crossed: NDArray[np.int64]
    loads: NDArray[np.float64]
    links: int


@dataclass(frozen=True)
class Flows:
    """Flows: nodes, steps, bits and weight of each: the shares of flows that share a link are as their weights.

    `first` is where each one's links begin in `crossed`. Those are directions of links, 2 * link + direction, and `loads` how much
    of the flow's rate it takes of each.
    """

    sources: NDArray[np.int64]
    destinations: NDArray[np.int64]
    steps: NDArray[np.int64]
    bits: NDArray[np.float64]
    weights: NDArray[np.float64]
    first: NDArray[np.int64]
    crossed: NDArray[np.int64]
    loads: NDArray[np.float64]


@dataclass(frozen=True)
class Carried:
    """When each node had all that comes to it, when each flow had left its source, in seconds; and how many events that took."""

    ended: NDArray[np.float64]
    left: NDArray[np.float64]
    events: int


def carry(
    flows: Flows, capacities: NDArray[np.float64], begun: Sequence[float] | NDArray[np.float64], message: float = 0.0,
    delay: float = 0.0,
) -> Carried:  # fmt: skip
    """Let all flows go: nodes begin their first steps at the times `begun`, in seconds.

    `capacities` are by direction of a link, in bits a second; 0 is unlimited. A flow takes `message` beside its time on the links,
    and `delay` for each link that it crosses.
    """
    nodes = len(begun)
    steps = int(flows.steps.max(initial=0)) + 1
    coming = np.zeros((nodes, steps), np.int64)
    np.add.at(coming, (flows.destinations, flows.steps), 1)
    pairs = flows.sources * nodes + flows.destinations
    order = np.lexsort((flows.steps, pairs))
    after = np.full(len(pairs), -1)
    same = pairs[order][1:] == pairs[order][:-1]
    after[order[:-1][same]] = order[1:][same]
    before = np.full(len(pairs), -1)
    before[after[after >= 0]] = np.flatnonzero(after >= 0)
    leaving = np.lexsort((np.arange(len(pairs)), flows.steps, flows.sources))  # by node and step
    starts = np.searchsorted((flows.sources * steps + flows.steps)[leaving], np.arange(nodes * steps + 1))
    unlimited = np.where(capacities > 0, capacities, UNLIMITED)
    ended, left, events = _carry(
        flows.destinations, flows.steps, flows.bits.copy(), flows.weights, flows.first, flows.crossed, flows.loads, unlimited,
        np.asarray(begun, float), message, delay, coming, before, after, leaving, starts,
    )  # fmt: skip
    return Carried(ended, left, int(events))


@compiled("i8(i8[::1], f8, f8[::1], i8[::1], i8[::1], f8[::1], f8[::1], f8[::1], f8[::1], i8[::1], b1[::1])")
def fix(
    unfixed: NDArray[np.int64], level: float, weights: NDArray[np.float64], first: NDArray[np.int64], crossed: NDArray[np.int64],
    loads: NDArray[np.float64], rates: NDArray[np.float64], left: NDArray[np.float64], loaded: NDArray[np.float64],
    users: NDArray[np.int64], full: NDArray[np.bool_],
) -> int:  # fmt: skip
    """Give the flows that cross a full link their rates; how many are left. `loaded`, zeros, is what these load links with."""
    kept = 0
    for f in unfixed:
        crosses = False
        for j in range(first[f], first[f + 1]):
            crosses |= full[crossed[j]]
        if crosses:
            rates[f] = level * weights[f]
            if not rates[f] > 0.0:
                raise ValueError("a flow has no share of its links")
        else:
            unfixed[kept] = f
            kept += 1
        for j in range(first[f], first[f + 1]):
            if crosses:
                left[crossed[j]] = max(left[crossed[j]] - rates[f] * loads[j], 0.0)
                users[crossed[j]] -= 1
            else:
                loaded[crossed[j]] += weights[f] * loads[j]
    return kept


@compiled("void(i8[::1], i8, f8[::1], i8[::1], i8[::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[::1], i8[::1], i8[::1], b1[::1])")
def share(
    active: NDArray[np.int64], count: int, weights: NDArray[np.float64], first: NDArray[np.int64], crossed: NDArray[np.int64],
    loads: NDArray[np.float64], capacities: NDArray[np.float64], rates: NDArray[np.float64], left: NDArray[np.float64],
    loaded: NDArray[np.float64], users: NDArray[np.int64], used: NDArray[np.int64], full: NDArray[np.bool_],
) -> None:  # fmt: skip
    """Max–min fair rates of the active flows, by progressive filling: the links that are full first decide their flows' rates.

    `left`, `loaded`, `users`, `used` and `full` are room for what is found of each link on the way; `users` are zeros.
    """
    n = 0
    for i in range(count):
        f = active[i]
        for j in range(first[f], first[f + 1]):
            link = crossed[j]
            if users[link] == 0:
                used[n], left[link], loaded[link] = link, capacities[link], 0.0
                n += 1
            users[link] += 1
            loaded[link] += weights[f] * loads[j]
    unfixed = active[:count].copy()
    while len(unfixed):
        level = np.inf
        for link in used[:n]:
            if users[link]:
                level = min(level, left[link] / loaded[link])
        for link in used[:n]:
            full[link] = users[link] > 0 and left[link] <= level * loaded[link] * (1 + ALIKE)
            loaded[link] = 0.0  # summed up anew, because differences are not exact
        kept = fix(unfixed, level, weights, first, crossed, loads, rates, left, loaded, users, full)
        unfixed = unfixed[:kept]


@compiled("UniTuple(i8, 2)(i8[::1], i8, f8, f8, f8[::1], f8[::1], f8[::1], i8[::1])")
def drain(
    active: NDArray[np.int64], count: int, span: float, now: float, bits: NDArray[np.float64], sizes: NDArray[np.float64],
    rates: NDArray[np.float64], ended: NDArray[np.int64],
) -> tuple[int, int]:  # fmt: skip
    """Let the active flows go for a while; how many are active then, and how many have ended, which are put into `ended`."""
    kept = n = 0
    for i in range(count):
        f = active[i]
        bits[f] -= span * rates[f]
        if bits[f] > ALIKE * max(sizes[f], rates[f] * now):
            active[kept] = f
            kept += 1
        else:
            ended[n] = f
            n += 1
    return kept, n


@compiled("i8(i8, i8[::1], i8[:, ::1], i8[::1], i8[::1], i8[::1], b1[::1], b1[::1], i8[::1], i8)")
def enter(
    node: int, at: NDArray[np.int64], coming: NDArray[np.int64], starts: NDArray[np.int64], leaving: NDArray[np.int64],
    before: NDArray[np.int64], done: NDArray[np.bool_], waits: NDArray[np.bool_], entering: NDArray[np.int64], entered: int,
) -> int:  # fmt: skip
    """Let a node begin all steps for which it has what it needs: its flows enter, or wait for those of the same connection."""
    steps = coming.shape[1]
    while at[node] + 1 < steps and (at[node] < 0 or coming[node, at[node]] == 0):
        at[node] += 1
        for i in range(starts[node * steps + at[node]], starts[node * steps + at[node] + 1]):
            f = leaving[i]
            waits[f] = before[f] >= 0 and not done[before[f]]
            if not waits[f]:
                entering[entered] = f
                entered += 1
    return entered


@compiled(
    "Tuple((f8[::1], f8[::1], i8))(i8[::1], i8[::1], f8[::1], f8[::1], i8[::1], i8[::1], f8[::1], f8[::1], f8[::1], f8, f8, "
    "i8[:, ::1], i8[::1], i8[::1], i8[::1], i8[::1])"
)
def _carry(
    destinations: NDArray[np.int64], step_of: NDArray[np.int64], bits: NDArray[np.float64], weights: NDArray[np.float64],
    first: NDArray[np.int64], crossed: NDArray[np.int64], loads: NDArray[np.float64], capacities: NDArray[np.float64],
    begun: NDArray[np.float64], message: float, delay: float, coming: NDArray[np.int64], before: NDArray[np.int64],
    after: NDArray[np.int64], leaving: NDArray[np.int64], starts: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:  # fmt: skip
    """See carry. `coming` counts what has not come yet, by node and step; `before` and `after` are flows of the same connection.

    `leaving` are flows by node and step, and `starts` where each node's and step's begin there. An event is a flow that has come;
    or a node that begins, numbered after the flows.
    """
    nodes, flows, links = len(begun), len(bits), len(capacities)
    times, orders, whats = np.zeros(flows + nodes), np.zeros(flows + nodes, np.int64), np.zeros(flows + nodes, np.int64)
    at, ended, gone, sizes = np.full(nodes, -1), begun.copy(), np.zeros(flows), bits.copy()
    done, waits, rates = np.zeros(flows, np.bool_), np.zeros(flows, np.bool_), np.zeros(flows)
    active, entering, over = np.zeros(flows, np.int64), np.zeros(flows, np.int64), np.zeros(flows, np.int64)
    left, loaded, users = np.zeros(links), np.zeros(links), np.zeros(links, np.int64)
    used, full = np.zeros(links, np.int64), np.zeros(links, np.bool_)
    size = events = count = 0
    for node in range(nodes):
        size = push(times, orders, whats, size, begun[node], node, flows + node)
    order, now = nodes, 0.0
    while size or count:
        until = times[0] if size else np.inf
        for i in range(count):
            until = min(until, now + bits[active[i]] / rates[active[i]])
        count, finished = drain(active, count, until - now, until, bits, sizes, rates, over)
        now, entered = until, 0
        for f in over[:finished]:
            done[f], gone[f] = True, now
            way = message + delay * np.sum(loads[first[f] : first[f + 1]] == 1.0)
            size = push(times, orders, whats, size, now + way, order, f)
            order += 1
            if after[f] >= 0 and waits[after[f]]:
                waits[after[f]] = False
                entering[entered] = after[f]
                entered += 1
        while size and times[0] <= now * (1 + ALIKE):
            what = whats[0]
            size = pop(times, orders, whats, size)
            events += 1
            node = what - flows if what >= flows else destinations[what]
            if what < flows:
                coming[node, step_of[what]] -= 1
                ended[node] = max(ended[node], now)
            if what >= flows or at[node] >= 0:
                entered = enter(node, at, coming, starts, leaving, before, done, waits, entering, entered)
        active[count : count + entered] = entering[:entered]
        count += entered
        if finished or entered:
            share(active, count, weights, first, crossed, loads, capacities, rates, left, loaded, users, used, full)
    return ended, gone, events
