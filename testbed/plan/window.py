"""The window that suits a network: enough packets are under way to fill the slowest link."""

from __future__ import annotations

import math

from inalab.topologies.plan import NetworkPlan

HOSTS = 0.002  # seconds of a round trip in which packets wait for hosts, which look at several at once
MARGIN = 1.5  # round trips, because switches and hosts do not forward evenly
FEWEST, MOST = 8, 1024
UNLIMITED = 64


def window(plan: NetworkPlan, bits: int, latency: float = 0.0) -> int:
    """Packets of so many bits that are under way in MARGIN round trips of the slowest link, as a power of two.

    Without a queue a packet crosses each link on its way up, and its result each on the way down; `latency` is in seconds, of
    what leaves a switch. Where no link has a rate, it is UNLIMITED.
    """
    rates = [1e6 * link.rate for link in plan.links if link.rate]
    if not rates:
        return UNLIMITED
    takes, levels = bits / min(rates), 1 + bool(plan.roots) + bool(plan.pods)
    longest = 2 * max(link.delay for link in plan.links) / 1000  # of a link up and one down
    round_trip = 2 * levels * takes + (2 * levels - 1) * latency + 2 * longest + HOSTS
    return int(min(max(2 ** math.ceil(math.log2(MARGIN * round_trip / takes)), FEWEST), MOST))
