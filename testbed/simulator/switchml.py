"""SwitchML packet by packet, without loss (NSDI '21, section 3): a pool of slots, self-clocked by results, in one or two levels.

A worker sends a packet for each slot. When a slot's result comes, its next packet leaves. A rack's switch adds its workers' packets
of a slot, and sends the sum up; the root adds the racks' sums, and each switch multicasts the result to its children. Links send
one packet after another at their rates; hosts and switches take a time for each packet, one after another, too.

`run` is compiled. tests/simulated_switchml.py is the same in plain Python, and is compared with it event by event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hosts.compiled import compiled
from testbed.simulator.events import pop, push

AT_RACK, AT_ROOT, DOWN_AT_RACK, AT_WORKER = range(4)  # where a packet arrives
PLACES = 4


@dataclass(frozen=True)
class Costs:
    """Seconds that hosts and switches take. With none the network alone takes time."""

    host: float = 0.0  # for each packet that a host sends or receives
    switch: float = 0.0  # for each packet that arrives at a switch
    delay: float = 0.0  # from a packet's last bit on a link to the next node


@dataclass(frozen=True)
class Network:
    """Workers by rank: their racks, and seconds of a packet on their links; and on the racks' uplinks, none for one rack."""

    racks: NDArray[np.int64]
    links: NDArray[np.float64]
    uplinks: NDArray[np.float64]


@dataclass(frozen=True)
class Simulated:
    """When each worker had the whole sum, and how many events that took."""

    ended: NDArray[np.float64]
    events: int


def simulate(network: Network, packets: int, slots: int, begun: NDArray[np.float64], costs: Costs = Costs()) -> Simulated:
    """A sum of so many packets a worker, each of whom begins at its time `begun`, in seconds."""
    workers, racks = len(network.racks), int(network.racks.max()) + 1
    if racks > 1 and len(network.uplinks) != racks:
        raise ValueError(f"{racks} racks need as many uplinks, not {len(network.uplinks)}")
    slots = min(slots, packets)
    sizes = np.bincount(network.racks, minlength=racks)
    members = np.argsort(network.racks, kind="stable")  # workers, rack by rank
    uplinks = network.uplinks if racks > 1 else np.zeros(1)
    room = 2 * (workers + racks) * slots  # one packet of each worker's slot is under way, and one of each rack's
    ended, events = run(
        network.racks, network.links, uplinks, sizes, members, packets, slots, begun.astype(float), costs.host, costs.switch,
        costs.delay, np.zeros(room), np.zeros(room, np.int64), np.zeros(room, np.int64),
    )  # fmt: skip
    return Simulated(ended, int(events))


@compiled(
    "Tuple((f8[::1], i8))(i8[::1], f8[::1], f8[::1], i8[::1], i8[::1], i8, i8, f8[::1], f8, f8, f8, f8[::1], i8[::1], i8[::1])"
)
def run(
    rack_of: Any, links: Any, uplinks: Any, sizes: Any, members: Any, packets: int, slots: int, begun: Any, host: float,
    switch: float, delay: float, times: Any, orders: Any, whats: Any,
) -> Any:  # fmt: skip
    """See simulate. An event's number is (node * slots + slot) * PLACES + where; the root's node is the rack that sent it."""
    workers, racks = len(rack_of), len(sizes)
    first = np.zeros(racks + 1, np.int64)  # of each rack's workers among `members`
    for r in range(racks):
        first[r + 1] = first[r] + sizes[r]
    host_free, up_free, down_free = begun.copy(), np.zeros(workers), np.zeros(workers)
    switch_free, trunk_up, trunk_down = np.zeros(racks + 1), np.zeros(racks), np.zeros(racks)
    arrived, summed = np.zeros((racks, slots), np.int64), np.zeros(slots, np.int64)
    next_of = np.zeros((workers, slots), np.int64)  # number of the slot's next packet
    left, ended = np.full(workers, packets), np.zeros(workers)
    size, order, events = 0, 0, 0
    for w in range(workers):
        for slot in range(slots):
            host_free[w] += host
            up_free[w] = max(host_free[w], up_free[w]) + links[w]
            next_of[w, slot] = slot + slots
            size = push(times, orders, whats, size, up_free[w] + delay, order, (w * slots + slot) * PLACES + AT_RACK)
            order += 1
    while size:
        now, what = times[0], whats[0]
        size = pop(times, orders, whats, size)
        events += 1
        where, slot, node = what % PLACES, what // PLACES % slots, what // PLACES // slots
        multicast = -1  # from this rack's switch
        if where == AT_RACK:
            r = rack_of[node]
            switch_free[r] = max(now, switch_free[r]) + switch
            arrived[r, slot] += 1
            if arrived[r, slot] == sizes[r]:
                arrived[r, slot] = 0
                if racks == 1:
                    multicast = r
                else:
                    trunk_up[r] = max(switch_free[r], trunk_up[r]) + uplinks[r]
                    size = push(times, orders, whats, size, trunk_up[r] + delay, order, (r * slots + slot) * PLACES + AT_ROOT)
                    order += 1
        elif where == AT_ROOT:
            switch_free[racks] = max(now, switch_free[racks]) + switch
            summed[slot] += 1
            if summed[slot] == racks:
                summed[slot] = 0
                for r in range(racks):
                    trunk_down[r] = max(switch_free[racks], trunk_down[r]) + uplinks[r]
                    size = push(
                        times, orders, whats, size, trunk_down[r] + delay, order, (r * slots + slot) * PLACES + DOWN_AT_RACK
                    )
                    order += 1
        elif where == DOWN_AT_RACK:
            switch_free[node] = max(now, switch_free[node]) + switch
            multicast = node
        else:
            host_free[node] = max(now, host_free[node]) + host
            left[node] -= 1
            if left[node] == 0:
                ended[node] = host_free[node]
            if next_of[node, slot] < packets:
                next_of[node, slot] += slots
                host_free[node] += host
                up_free[node] = max(host_free[node], up_free[node]) + links[node]
                size = push(times, orders, whats, size, up_free[node] + delay, order, (node * slots + slot) * PLACES + AT_RACK)
                order += 1
        if multicast >= 0:
            for i in range(first[multicast], first[multicast + 1]):
                w = members[i]
                down_free[w] = max(switch_free[multicast], down_free[w]) + links[w]
                size = push(times, orders, whats, size, down_free[w] + delay, order, (w * slots + slot) * PLACES + AT_WORKER)
                order += 1
    return ended, events
