"""Sums whose messages are known from the start (schemes.scheme.Transfers): nodes follow their steps, as hosts.tcp.pairwise."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from inalab.schemes.scheme import Transfers
from inalab.testbed.simulator.traffic import Traffic, nobody_waits

Spans = tuple[NDArray[np.float64], NDArray[np.float64]]  # when each worker came to each sum, and had it: (workers, sums)


class Sums:
    """One sum after another. A node is at a step once all that it receives in the step before has come.

    Nodes are the plan's hosts: workers, who compute for `compute` seconds, (workers, sums), before each sum, then servers.
    """

    def __init__(self, traffic: Traffic, transfers: Transfers, compute: NDArray[np.float64]) -> None:
        self.traffic, self.compute = traffic, compute
        self.workers, self.number = compute.shape
        self.nodes, self.steps = len(traffic.plan.everyone), int(transfers.steps.max(initial=-1)) + 1
        self.coming = np.zeros((self.nodes, self.steps), np.int64)
        np.add.at(self.coming, (transfers.destinations, transfers.steps), 1)
        self.leaving: defaultdict[tuple[int, int], list[tuple[int, float, float]]] = defaultdict(list)  # by node and step
        whole = zip(transfers.sources, transfers.steps, transfers.destinations, transfers.bytes, transfers.weights, strict=True)
        for source, step, destination, octets, weight in whole:
            self.leaving[int(source), int(step)].append((int(destination), float(octets), float(weight)))
        self.come: defaultdict[tuple[int, int, int], int] = defaultdict(int)  # messages, by node, sum and step
        self.at = [(0, -1)] * self.nodes  # the sum and the step of each node; before the first one it computes
        self.begun, self.ended = np.zeros_like(compute), np.zeros_like(compute)

    def run(self) -> Spans:
        """ValueError where that would take too long."""
        for node in range(self.nodes):
            self._wait(node, 0)
        self.traffic.run()
        nobody_waits([node for node in range(self.workers) if self.at[node] != (self.number, -1)])
        return self.begun, self.ended

    def _wait(self, node: int, number: int) -> None:
        """For a sum: a worker computes."""
        self.at[node] = number, -1
        if number == self.number:
            return
        if node < self.workers:
            self.traffic.after(float(self.compute[node, number]), self._begin, node)
        else:
            self._begin(node)

    def _begin(self, node: int) -> None:
        if node < self.workers:
            self.begun[node, self.at[node][0]] = self.traffic.now
        self._step(node)

    def _step(self, node: int) -> None:
        """The next step, in which its messages leave; and those after, as far as nothing is to come."""
        number, step = self.at[node]
        while (step := step + 1) < self.steps:
            self.at[node] = number, step
            for destination, octets, weight in self.leaving.get((node, step), ()):
                self.traffic.send(node, destination, octets, self._has_come, destination, number, step, weight=weight)
            if not self._complete(node):
                return
        if node < self.workers:
            self.ended[node, number] = self.traffic.now
        self._wait(node, number + 1)

    def _has_come(self, node: int, number: int, step: int) -> None:
        self.come[node, number, step] += 1
        if (number, step) == self.at[node] and self._complete(node):
            self._step(node)

    def _complete(self, node: int) -> bool:
        number, step = self.at[node]
        if self.come[node, number, step] < self.coming[node, step]:
            return False
        del self.come[node, number, step]
        return True
