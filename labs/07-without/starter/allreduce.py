"""Lab 7: sums without a switch that adds. You write the classes and functions that are marked TODO; see node.py."""

import numpy as np  # noqa: F401 (you will want it)
from node import Node


class RingWorker(Node):
    """TODO 1: reduce-scatter, then all-gather."""

    def start(self, number, workers, tensor):
        """`tensor` is this worker's (numpy, float32); workers have the numbers 0 to workers - 1."""
        self.introduce(number)

    def receive_array(self, peer, tag, array):
        pass


class ServerWorker(Node):
    """TODO 2: pushes its tensor to the server, which is host `workers`, and gets the sum back."""

    def start(self, number, workers, tensor):
        self.introduce(number)

    def receive_array(self, peer, tag, array):
        pass


class Server(Node):
    """TODO 2: adds, and sends every worker the sum."""

    def start(self, number, workers):
        self.introduce(number)
        self.finish()  # it has no result of its own, and serves as long as anybody pushes

    def receive_array(self, peer, tag, array):
        pass


def shares(workers, spares):
    """TODO 3: what part of a tensor each service adds: a list, those on the workers' hosts first, then those on spare hosts."""
    return []


class SplitWorker(Node):
    """TODO 4: a worker, and the service on its host."""

    def start(self, number, workers, spares, tensor):
        """Spare hosts have the numbers workers to workers + spares - 1."""
        self.introduce(number)

    def receive_array(self, peer, tag, array):
        pass


class SplitServer(Node):
    """TODO 4: the service on a spare host."""

    def start(self, number, workers, spares):
        self.introduce(number)
        self.finish()

    def receive_array(self, peer, tag, array):
        pass
