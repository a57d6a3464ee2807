"""What SwitchML and ATP have in common: chunks of k integers, a number of them under way, and bounds of packets over links."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from inalab.hosts.ethernet import PHYSICAL_BYTES
from inalab.hosts.stream.quantization import LARGEST
from inalab.hosts.stream.stream import RECOVERIES
from inalab.schemes.scheme import Scheme, SchemeSettings, one_of
from inalab.switches import switchml
from inalab.topologies.plan import NetworkPlan

P4 = Path(__file__).resolve().parent.parent / "p4"
K_CHOICES = (32, 64, 256)
MOST_SLOTS = switchml.CELLS // 2


class StreamSettings(SchemeSettings):
    """Chunks under way, their size, and what happens to those that are overdue."""

    k: int = Field(64, description="integers in a packet: 32, 64 or 256")
    slots: int = Field(64, description="chunks under way")
    scaling: float | None = Field(None, gt=0, le=1e30, description="a fixed factor that makes integers of floats")

    @field_validator("slots")
    @classmethod
    def _fit(cls, slots: int) -> int:
        if not 1 <= slots <= MOST_SLOTS:
            raise ValueError(f"from 1 to {MOST_SLOTS} fit in the switch's pool")
        return slots

    @field_validator("k")
    @classmethod
    def _compiled(cls, k: int) -> int:
        if k not in K_CHOICES:
            raise ValueError(f"the program can be compiled for {', '.join(map(str, K_CHOICES))} integers a packet")
        return k


class RecoverySettings(StreamSettings):
    """And by which way that happens."""

    recovery: Annotated[str, one_of(*RECOVERIES)] = Field(
        "ask", description="ask what became of an overdue chunk, or send it again as the paper does"
    )


class Streaming(Scheme):
    """A scheme whose chunks the switches add."""

    driven = timeline = True
    of_bound = (0.93, 1.02)
    smallest = 2.0**-125  # smaller values have the exponent of this one

    def step(self, settings: Any, workers: int, largest: float) -> float:
        """What an integer 1 is worth at most with block exponents; infinite with a fixed factor, where sums overflow unseen."""
        return 2 * workers * max(largest, self.smallest) / LARGEST if settings.scaling is None else math.inf

    def sum_error(self, settings: Any, workers: int, largest: float, magnitudes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Half a step for each worker, beside what floats lose."""
        rounded = workers * self.step(settings, workers, largest) / 2
        return super().sum_error(settings, workers, largest, magnitudes) + rounded

    def packets(self, settings: Any, elements: int) -> int:
        """That a worker sends for a tensor."""
        return -(-elements // int(settings.k))

    def on_wire(self, settings: Any, elements: int) -> int:
        """Bits of these packets on a link, preamble, FCS and gap included."""
        return self.packets(settings, elements) * self.bits_on_wire(int(settings.k))

    def framing(self, settings: Any, elements: int) -> float:
        frames = self.on_wire(settings, elements) / 8 - self.packets(settings, elements) * PHYSICAL_BYTES
        return float(frames / (4 * elements))

    def uplink_tensors(self, plan: NetworkPlan, settings: Any, elements: int) -> float:
        """A rack sends a tensor once, whatever the number of its workers."""
        return self.framing(settings, elements)
