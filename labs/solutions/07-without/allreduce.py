"""Lab 7: sums without a switch that adds: a ring, a parameter server, and BytePS's split between both."""

import numpy as np
from node import Node

PIECE = 350  # floats that a service sums and sends back together
CREDIT = 16  # pieces of a split that a worker has under way: so the sums that its service sends get their turn on the link


class RingWorker(Node):
    """Reduce-scatter, then all-gather: 2(n - 1) steps, in each of which everybody sends 1/n of the tensor to the right."""

    def start(self, number, workers, tensor):
        self.introduce(number)
        self.workers, self.sum = workers, tensor.copy()
        self.parts = np.array_split(self.sum, workers)  # views: what is written there is in the sum
        self.step = 0
        self.next_step()

    def next_step(self):
        if self.step == 2 * (self.workers - 1):
            self.finish(self.sum)
            return
        part = (self.number - self.step) % self.workers
        self.send_array((self.number + 1) % self.workers, self.step, self.parts[part])

    def receive_array(self, peer, tag, array):
        part = (self.number - tag - 1) % self.workers
        if tag < self.workers - 1:
            self.parts[part][:] += array
        else:
            self.parts[part][:] = array
        self.step = tag + 1
        self.next_step()


def pieces(begin, end):
    """A range in pieces that are summed and sent back on their own."""
    return [(at, min(at + PIECE, end)) for at in range(begin, end, PIECE)]


class Summation:
    """What a service knows of one piece: the sum so far, and who is in it."""

    def __init__(self):
        self.sum, self.pushed = None, 0

    def add(self, array):
        self.sum = array.copy() if self.sum is None else self.sum + array
        self.pushed += 1


class ServerWorker(Node):
    """Pushes everything to the server, which is host `workers`, and gets the sum back."""

    def start(self, number, workers, tensor):
        self.introduce(number)
        self.sum, self.missing = np.zeros_like(tensor), len(tensor)
        for begin, end in pieces(0, len(tensor)):
            self.send_array(workers, begin, tensor[begin:end])
        if not self.missing:
            self.finish(self.sum)

    def receive_array(self, peer, tag, array):
        self.sum[tag : tag + len(array)] = array
        self.missing -= len(array)
        if self.missing == 0:
            self.finish(self.sum)


class Server(Node):
    def start(self, number, workers):
        self.introduce(number)
        self.workers, self.sums = workers, {}
        self.finish()  # it serves as long as anybody pushes

    def receive_array(self, peer, tag, array):
        summation = self.sums.setdefault(tag, Summation())
        summation.add(array)
        if summation.pushed == self.workers:
            for worker in range(self.workers):
                self.send_array(worker, tag, summation.sum)
            del self.sums[tag]


def shares(workers, spares):
    """What part of a tensor each service adds: those on the workers' hosts, then those on spare hosts."""
    n, k = workers, spares
    d = n * n + k * n - 2 * k
    return [(n - k) / d] * n + [2 * (n - 1) / d] * k


class SplitWorker(Node):
    """A worker and the service on its host: both use the host's link."""

    def start(self, number, workers, spares, tensor):
        self.introduce(number)
        self.workers, self.sum, self.missing, self.sums = workers, np.zeros_like(tensor), len(tensor), {}
        ends = np.rint(np.cumsum([0, *shares(workers, spares)]) * len(tensor)).astype(int).tolist()
        self.own = range(ends[number], ends[number + 1])  # what this host's service adds
        order = []  # all services' pieces, such that each service has its first and its last at the same time as the others
        for service in range(workers + spares):
            cut = pieces(ends[service], ends[service + 1])
            turn = (service - number) % (workers + spares)  # everybody begins with another service
            order += [((at + 0.5) / len(cut), turn, service, *piece) for at, piece in enumerate(cut)]
        self.tensor, self.order = tensor, iter(sorted(order))
        for _ in range(CREDIT):
            self.push_next()
        if not self.missing:
            self.finish(self.sum)

    def push_next(self):
        _, _, service, begin, end = next(self.order, (None,) * 5)
        if service == self.number:
            self.add(begin, self.tensor[begin:end])
        elif service is not None:
            self.send_array(service, begin, self.tensor[begin:end])

    def receive_array(self, peer, tag, array):
        if tag in self.own:
            self.add(tag, array)  # another worker's
        else:
            self.take(tag, array)  # a sum

    def add(self, tag, array):
        summation = self.sums.setdefault(tag, Summation())
        summation.add(array)
        if summation.pushed == self.workers:
            for worker in range(self.workers):
                if worker != self.number:
                    self.send_array(worker, tag, summation.sum)
            self.take(tag, summation.sum)
            del self.sums[tag]

    def take(self, tag, array):
        self.sum[tag : tag + len(array)] = array
        self.missing -= len(array)
        self.push_next()
        if self.missing == 0:
            self.finish(self.sum)


class SplitServer(Server):
    """The service on a spare host."""

    def start(self, number, workers, spares):
        super().start(number, workers)
