"""Sums whose messages are known from the start (schemes.scheme.Transfers): nodes follow their steps, as hosts.tcp.pairwise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from inalab.schemes.scheme import Transfers
from inalab.testbed.simulator.steps import Steps
from inalab.testbed.simulator.traffic import Traffic, nobody_waits

Spans = tuple[NDArray[np.float64], NDArray[np.float64]]  # when each worker came to each sum, and had it: (workers, sums)


class Sums:
    """One sum after another. A node is at a step of a sum once all that it receives in the step before has come.

    Nodes are the plan's hosts: workers, who come to sums as `steps` has it, then servers. `transfers` are those of each layer,
    front first.
    """

    def __init__(self, traffic: Traffic, transfers: Sequence[Transfers], steps: Steps) -> None:
        self.traffic, self.steps = traffic, steps
        self.nodes = len(traffic.plan.everyone)
        self.layers = [_Layer(its, self.nodes) for its in transfers]
        self.come: defaultdict[tuple[int, int, int], int] = defaultdict(int)  # messages, by node, sum and step
        self.at = [(0, -1)] * self.nodes  # the sum and the step of each node; before the first one it waits for the sum
        self.released = [0] * steps.workers  # sums that each worker has come to
        self.begun = np.zeros((steps.workers, steps.sums))

    def run(self) -> Spans:
        """ValueError where that would take too long."""
        for worker in range(self.steps.workers):
            self._release(worker)
        for server in range(self.steps.workers, self.nodes):
            self._step(server)
        self.traffic.run()
        nobody_waits([worker for worker in range(self.steps.workers) if self.at[worker] != (self.steps.sums, -1)])
        return self.begun, self.steps.ended

    def _release(self, worker: int) -> None:
        """The sums of its next step, in time."""
        for when in self.steps.begin(worker):
            self.traffic.after(when - self.traffic.now, self._come_to, worker)

    def _come_to(self, worker: int) -> None:
        number = self.released[worker]
        self.begun[worker, number] = self.traffic.now
        self.released[worker] += 1
        if self.at[worker] == (number, -1):
            self._step(worker)

    def _step(self, node: int) -> None:
        """The next step, in which its messages leave; and those after, as far as nothing is to come."""
        number, step = self.at[node]
        layer = self.layers[self.steps.layer(number)]
        while (step := step + 1) < layer.steps:
            self.at[node] = number, step
            for destination, octets, weight in layer.leaving.get((node, step), ()):
                self.traffic.send(node, destination, octets, self._has_come, destination, number, step, weight=weight)
            if not self._complete(node):
                return
        self._end(node, number)

    def _end(self, node: int, number: int) -> None:
        """It has a sum, and goes on with the next one that it has come to."""
        self.at[node] = number + 1, -1
        if node < self.steps.workers:
            self.steps.ended[node, number] = self.traffic.now
            if (number + 1) % self.steps.layers == 0:
                self._release(node)
                return
        if number + 1 < (self.released[node] if node < self.steps.workers else self.steps.sums):
            self._step(node)

    def _has_come(self, node: int, number: int, step: int) -> None:
        self.come[node, number, step] += 1
        if (number, step) == self.at[node] and self._complete(node):
            self._step(node)

    def _complete(self, node: int) -> bool:
        number, step = self.at[node]
        if self.come[node, number, step] < self.layers[self.steps.layer(number)].coming[node, step]:
            return False
        del self.come[node, number, step]
        return True


class _Layer:
    """What nodes send for the sum of a layer, and how many messages come to them, by step."""

    def __init__(self, transfers: Transfers, nodes: int) -> None:
        self.steps = int(transfers.steps.max(initial=-1)) + 1
        self.coming = np.zeros((nodes, self.steps), np.int64)
        np.add.at(self.coming, (transfers.destinations, transfers.steps), 1)
        self.leaving: defaultdict[tuple[int, int], list[tuple[int, float, float]]] = defaultdict(list)
        whole = zip(transfers.sources, transfers.steps, transfers.destinations, transfers.bytes, transfers.weights, strict=True)
        for source, step, destination, octets, weight in whole:
            self.leaving[int(source), int(step)].append((int(destination), float(octets), float(weight)))
