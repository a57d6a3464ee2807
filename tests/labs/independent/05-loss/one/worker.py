"""Lab 5: a worker. Each slot is an object that walks along its own chunks and knows how to repeat itself."""

import numpy as np
import wire

from inalab.testbed.lab.host import Host


class Slot:
    """What is under way in one slot: a chunk, and the very packet that carries it."""

    def __init__(self, worker, index):
        self.worker, self.index = worker, index
        self.ahead = enumerate(range(index, worker.chunks, worker.slots))
        self.chunk = self.packet = None

    def advance(self):
        turn, self.chunk = next(self.ahead, (0, None))
        if self.chunk is None:
            self.packet = None
            return
        self.packet = wire.update(
            self.worker.number, self.worker.rows[self.chunk], slot=self.index, chunk=self.chunk, version=turn & 1
        )
        self.transmit()

    def transmit(self):
        self.worker.send(self.packet)
        self.worker.set_timer(self.worker.rto, str(self.index))

    def accept(self, got):
        """True if this was the sum that the slot waits for."""
        if self.chunk is None or got.chunk != self.chunk:
            return False
        self.worker.cancel_timer(str(self.index))
        self.worker.result[self.chunk] = got.values
        self.advance()
        return True


class Worker(Host):
    def start(self, number, workers, tensor, slots, rto):
        self.number, self.slots, self.rto = number, slots, rto
        self.length = len(tensor)
        self.chunks = -(-self.length // wire.LANES)
        self.rows = np.zeros((self.chunks, wire.LANES), np.int32)
        self.rows.reshape(-1)[: self.length] = tensor
        self.result = np.zeros_like(self.rows)
        self.pool = [Slot(self, i) for i in range(min(slots, self.chunks))]
        for slot in self.pool:
            slot.advance()
        if not self.pool:
            self.done()

    def expire(self, timer):
        self.pool[int(timer)].transmit()

    def receive(self, packet):
        got = wire.read(packet)
        if got is None or got.kind != wire.RESULT or got.slot >= len(self.pool):
            return
        if self.pool[got.slot].accept(got) and all(s.chunk is None for s in self.pool):
            self.done()

    def done(self):
        self.finish(self.result.reshape(-1)[: self.length])
