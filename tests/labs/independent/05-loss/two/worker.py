"""Lab 5: a worker whose slots live in numpy arrays, and whose one timer runs down at the earliest deadline of all."""

import numpy as np
import wire

from inalab.testbed.lab.host import Host

NEVER = np.inf
EPSILON = 1e-6  # microseconds; sums of floats


class Worker(Host):
    def start(self, number, workers, tensor, slots, rto):
        self.number, self.slots, self.rto = number, slots, rto
        self.length = len(tensor)
        self.chunks = -(-self.length // wire.LANES)
        self.blocks = np.zeros((self.chunks, wire.LANES), np.int32)  # one row a chunk
        self.blocks.reshape(-1)[: self.length] = tensor
        self.sums = np.zeros_like(self.blocks)
        self.done = np.zeros(self.chunks, bool)
        self.awaited = np.full(slots, -1)  # the chunk that each slot waits for
        self.deadline = np.full(slots, NEVER)
        busy = min(slots, self.chunks)
        self.awaited[:busy] = np.arange(busy)
        self.transmit(np.arange(busy))
        self.finish_if_complete()

    def transmit(self, which):
        """Send the awaited chunk of each of these slots, for the first time or again."""
        for slot in map(int, which):
            chunk = int(self.awaited[slot])
            version = chunk // self.slots % 2
            self.send(wire.update(self.number, self.blocks[chunk], slot=slot, chunk=chunk, version=version))
        self.deadline[which] = self.now + self.rto
        self.arm()

    def arm(self):
        earliest = float(self.deadline.min(initial=NEVER))
        if earliest < NEVER:
            self.set_timer(max(earliest - self.now, 0.0), "scan")
        else:
            self.cancel_timer("scan")

    def expire(self, timer):
        self.transmit(np.flatnonzero(self.deadline <= self.now + EPSILON))

    def receive(self, packet):
        got = wire.read(packet)
        if got is None or got.kind != wire.RESULT or got.slot >= self.slots or self.awaited[got.slot] != got.chunk:
            return
        slot, chunk = got.slot, got.chunk
        self.sums[chunk] = got.values
        self.done[chunk] = True
        self.awaited[slot], self.deadline[slot] = -1, NEVER
        if chunk + self.slots < self.chunks:
            self.awaited[slot] = chunk + self.slots
            self.transmit(np.array([slot]))
        else:
            self.arm()
        self.finish_if_complete()

    def finish_if_complete(self):
        if self.done.all():
            self.finish(self.sums.reshape(-1)[: self.length])
