"""Which packets a link loses: what p4/include/loss.p4 decides, from the same seeds and numbers (switches.loss)."""

from __future__ import annotations

from inalab.hosts.compiled import compiled
from inalab.testbed.simulator.world import WORLD, B, World, Z

WORD = 0xFFFFFFFF
OTHER = 0x5BD1E995  # makes a second draw of the first


@compiled(Z(Z))
def mix(x: int) -> int:
    """The finalizer of MurmurHash3 on 32 bits."""
    x &= WORD
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & WORD
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & WORD
    return x ^ (x >> 16)


@compiled(B(WORLD, Z, Z), inline=True)
def loses(world: World, link: int, direction: int) -> bool:
    """Whether the link's next packet in a direction is lost. Numbers packets where links lose any, as the program does."""
    good, bad, enter, leave = world.chances[0], world.chances[1], world.chances[2], world.chances[3]
    if good == 0 and enter == 0:
        return False
    its = world.links[link, direction]
    draw = mix(its.seed ^ mix(its.numbered))
    its.numbered += 1
    if mix(draw ^ OTHER) < (leave if its.bad else enter):
        its.bad = 1 - its.bad
    lost = draw < (bad if its.bad else good)
    its.lost += lost
    return bool(lost)
