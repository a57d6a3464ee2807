"""A machine's memory where the network sums between machines: it takes part there for all GPUs of the machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from inalab.hosts.collective import UNNAMED, AggregationError, Collective, Label
from inalab.hosts.in_turn import InTurn
from inalab.hosts.tcp.connection import Meeting
from inalab.hosts.tcp.group import Group
from inalab.hosts.tcp.pairwise import ANNOUNCEMENT, DTYPES, Server
from inalab.hosts.tcp.schedules import Move, Schedule


class Leader(Server):
    """Follows the schedule of its machine. While one piece of a tensor is summed with those of the other machines, others come from
    the machine's GPUs and go to them."""

    def __init__(
        self, group: Group, schedule: Schedule, meeting: Meeting, between: Collective, summed: Mapping[int, range]
    ) -> None:
        """`summed` are the blocks that the network sums during a step, by the step."""
        super().__init__(group, schedule, meeting)
        self.label = UNNAMED  # of the tensor's pieces
        self.summed, self.sums = summed, InTurn(between, group.driver)
        self.sums.begin()

    def _follow(self, blocks: NDArray[Any], announcement: bytes, to: set[int], of: set[int]) -> None:
        """What the GPUs have announced goes with each piece, so that machines which sum different tensors are told apart."""
        kind, empties, elements = ANNOUNCEMENT.unpack(announcement)
        for _ in range(empties):
            self.sums.sum(torch.empty(0))
        self.label = Label(floats=elements) if DTYPES[kind] == np.float32 else Label(octets=4 * elements)
        super()._follow(blocks, announcement, to, of)

    def _step(self, number: int, step: list[Move], blocks: NDArray[Any], announcement: bytes, unannounced: set[int]) -> None:
        rows = self.summed.get(number)
        under_way = self.sums.sum(torch.from_numpy(blocks[rows.start : rows.stop]), self.label) if rows is not None else None
        super()._step(number, step, blocks, announcement, unannounced)
        if under_way is None:
            return
        try:
            under_way.wait()
        except AggregationError as error:
            raise self._error(f"between machines, each of which is a worker there: {error}") from None

    def close(self) -> None:
        """Leave both groups."""
        super().close()
        self.sums.give_up("the machine's GPUs have left")
        self.sums.over.wait()
