"""Packets that resemble the recorded ones, and packets that do not."""

from __future__ import annotations

import random
from collections.abc import Callable

PORTS = 8
CORNERS = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
LONGEST = 10_240  # that the switch takes
Packet = tuple[int, bytes]


def flip(rng: random.Random, data: bytes, _: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        if changed:
            at = rng.randrange(len(changed))
            changed[at] ^= 1 << rng.randrange(8)
    return bytes(changed)


def overwrite(rng: random.Random, data: bytes, _: bytes) -> bytes:
    size = rng.choice([1, 2, 4])
    at = rng.randrange(len(data) + 1)
    return data[:at] + (rng.choice(CORNERS) & (1 << 8 * size) - 1).to_bytes(size, "big") + data[at + size :]


def truncate(rng: random.Random, data: bytes, _: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def extend(rng: random.Random, data: bytes, _: bytes) -> bytes:
    room = max(LONGEST - len(data), 0) + 1
    return data + rng.randbytes(rng.choice([1, 2, 60, 1500, room]) if rng.random() < 0.05 else rng.randrange(1, 64))


def splice(rng: random.Random, data: bytes, other: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def insert(rng: random.Random, data: bytes, _: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.randrange(1, 9)) + data[at:]


def noise(rng: random.Random, data: bytes, _: bytes) -> bytes:
    return data[: rng.choice([0, 12, 14])] + rng.randbytes(rng.randrange(0, 200))


def same(_: random.Random, data: bytes, __: bytes) -> bytes:
    return data


MUTATIONS: list[Callable[[random.Random, bytes, bytes], bytes]] = [flip, overwrite, truncate, extend, splice, insert, noise, same]


def mutated(rng: random.Random, recorded: list[Packet]) -> Packet:
    """One packet, made of recorded ones by one to three changes; from the recorded port, or another."""
    port, data = rng.choice(recorded)
    for _ in range(rng.choice([1, 1, 2, 3])):
        data = rng.choice(MUTATIONS)(rng, data, rng.choice(recorded)[1])
    return (rng.randrange(PORTS) if rng.random() < 0.3 else port), data[: LONGEST + 1]
