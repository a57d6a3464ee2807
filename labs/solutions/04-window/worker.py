"""Lab 4: a worker that keeps one chunk under way in every slot; each sum that comes lets the next chunk go."""

import numpy as np
import wire

from inalab.testbed.lab.host import Host


class Worker(Host):
    def start(self, number, workers, tensor, slots):
        """`tensor` is this worker's (numpy, int32), and `slots` is how many of the switch's slots there are for it."""
        self.number, self.tensor, self.slots = number, tensor, slots
        self.chunks = -(-len(tensor) // wire.LANES)
        self.sum = np.zeros(self.chunks * wire.LANES, np.int32)
        self.missing = self.chunks
        for chunk in range(min(slots, self.chunks)):
            self.send_chunk(chunk)
        self.finish_if_complete()

    def send_chunk(self, chunk):
        values = self.tensor[chunk * wire.LANES : (chunk + 1) * wire.LANES]
        self.send(wire.update(self.number, values, slot=chunk % self.slots, chunk=chunk))

    def receive(self, packet):
        got = wire.read(packet)
        if got is None or got.kind != wire.RESULT:
            return
        self.sum[got.chunk * wire.LANES : (got.chunk + 1) * wire.LANES] = got.values
        self.missing -= 1
        if got.chunk + self.slots < self.chunks:
            self.send_chunk(got.chunk + self.slots)
        self.finish_if_complete()

    def finish_if_complete(self):
        if self.missing == 0:
            self.finish(self.sum[: len(self.tensor)])
