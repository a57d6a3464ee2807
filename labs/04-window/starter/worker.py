"""Lab 4: a worker that keeps one chunk under way in every slot. You write what is marked TODO."""

import numpy as np
import wire

from inalab.testbed.lab.host import Host


class Worker(Host):
    def start(self, number, workers, tensor, slots):
        """`tensor` is this worker's (numpy, int32), and `slots` is how many of the switch's slots there are for it."""
        self.number, self.tensor, self.slots = number, tensor, slots
        self.chunks = -(-len(tensor) // wire.LANES)  # rounded up: the last one may be shorter
        self.sum = np.zeros(self.chunks * wire.LANES, np.int32)
        # TODO 4: send the first chunks, one into each slot

    def send_chunk(self, chunk):
        values = self.tensor[chunk * wire.LANES : (chunk + 1) * wire.LANES]
        # TODO 4: self.send(wire.update(...)) into the slot that is this chunk's

    def receive(self, packet):
        got = wire.read(packet)  # see wire.py: got.kind, got.slot, got.chunk, got.values
        # TODO 5: keep the sum, and send the chunk that comes next in this slot
        # TODO 6: when all sums are there, self.finish(the whole sum, as long as the tensor)
