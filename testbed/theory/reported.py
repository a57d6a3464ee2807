"""Numbers that were reported of other hardware, and are drawn beside several experiments."""

from __future__ import annotations

# 10^9 ATE/s at 100 Gbit/s by number of workers, read by eye from the benchmark picture of SwitchML's public code repository
ATE = {"switchml": {4: 2.83, 8: 2.82, 16: 2.81}, "NCCL, RDMA": {4: 1.39, 8: 1.26, 16: 0.97}}
LINK_BOUND = 2.89
ATE_RATE = 100_000.0  # Mbit/s, of these
SPEEDUP = 2.27  # of training with SwitchML at 100 Gbit/s, at most, against the best baseline [slide]
BYTEPS = {"all-reduce": 0.84, "parameter servers": 2.45}  # by how much more throughput BytePS has, at most [its abstract]
