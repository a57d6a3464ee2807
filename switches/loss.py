"""The control plane of p4/include/loss.p4: loss on the links of a switch, decided by a hash of (seed, packet number)."""

from __future__ import annotations

from dataclasses import dataclass

from .control import Control

DIRECTIONS = ("loss_in", "loss_out")  # the programs' instances: into the switch, out of it


@dataclass(frozen=True)
class Loss:
    """Loss on one direction of a link. Probabilities per packet; `enter` 0 is Bernoulli loss at `good`."""

    good: float = 0.0
    bad: float = 0.0
    enter: float = 0.0
    leave: float = 0.0

    @classmethod
    def bernoulli(cls, rate: float) -> Loss:
        return cls(good=rate)

    @classmethod
    def gilbert_elliott(cls, mean: float, burst: float) -> Loss:
        """Everything is lost in the bad state, nothing in the good one: mean rate p/(p+r), bursts of 1/r packets."""
        if not 0 <= mean < 1 or burst < 1:
            raise ValueError(f"bursty loss needs a mean in [0, 1) and bursts of at least 1 packet, not {mean} and {burst}")
        leave = 1 / burst
        enter = leave * mean / (1 - mean)
        if enter > 1:
            raise ValueError(f"a mean loss of {mean} in bursts of {burst} packets is not possible")
        return cls(good=0.0, bad=1.0, enter=enter, leave=leave)

    @property
    def mean(self) -> float:
        """The long-run loss rate."""
        share = self.enter / (self.enter + self.leave) if self.enter else 0.0
        return self.good * (1 - share) + self.bad * share


def mix(x: int) -> int:
    """The finalizer of MurmurHash3 on 32 bits, as in p4/include/loss.p4."""
    x &= 0xFFFFFFFF
    x = (x ^ x >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    x = (x ^ x >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return x ^ x >> 16


def link_seed(seed: int, link: int, direction: int) -> int:
    """The 32-bit seed of one direction (0: into the switch, 1: out of it) of a link."""
    return mix(seed ^ mix(2 * link + direction + 1))


def threshold(probability: float) -> int:
    """A probability as the program compares it: times 2^32, at most 2^32 - 1."""
    if not 0 <= probability <= 1:
        raise ValueError(f"{probability} is not a probability")
    return min(round(probability * 2**32), 2**32 - 1)


def decisions(loss: Loss, seed: int, packets: int) -> list[bool]:
    """Which of the first `packets` packets of a link's direction are lost; what p4/include/loss.p4 decides."""
    lost, bad = [], False
    for n in range(packets):
        draw = mix(seed ^ mix(n))
        if mix(draw ^ 0x5BD1E995) < threshold(loss.leave if bad else loss.enter):
            bad = not bad
        lost.append(draw < threshold(loss.bad if bad else loss.good))
    return lost


def prepare_loss(direction: int, port: int, loss: Loss, seed: int) -> list[str]:
    """How packets are to be lost; direction 0 is into the switch, 1 is out of it. `seed` is the link_seed."""
    name = DIRECTIONS[direction]
    return [
        f"register_write {name}.{field} {port} {value}"
        for field, value in (
            ("seed", seed),
            ("good", threshold(loss.good)),
            ("bad", threshold(loss.bad)),
            ("enter", threshold(loss.enter)),
            ("leave", threshold(loss.leave)),
            ("state", 0),
            ("number", 0),
        )
    ]


def switch_loss(direction: int, port: int, on: bool) -> str:
    """Begin to lose packets as prepared, or stop."""
    return f"register_write {DIRECTIONS[direction]}.mode {port} {int(on)}"


def set_loss(direction: int, port: int, loss: Loss, seed: int) -> list[str]:
    """Lose packets from now on; see prepare_loss."""
    return [*prepare_loss(direction, port, loss, seed), switch_loss(direction, port, True)]


def counted(control: Control, port: int) -> tuple[int, int]:
    """Packets lost and passed on a port's link since loss was set, both directions together."""
    lost, passed = (sum(control.counter(f"{name}.{what}", port) for name in DIRECTIONS) for what in ("dropped", "passed"))
    return lost, passed
