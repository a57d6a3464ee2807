"""Lab 5: a worker that sends a chunk again until its sum has come."""

import numpy as np
import wire

from inalab.testbed.lab.host import Host


class Worker(Host):
    def start(self, number, workers, tensor, slots, rto):
        """`tensor` is this worker's (numpy, int32); `rto` is how long it waits for a sum, in microseconds."""
        self.number, self.tensor, self.slots, self.rto = number, tensor, slots, rto
        self.chunks = -(-len(tensor) // wire.LANES)
        self.sum = np.zeros(self.chunks * wire.LANES, np.int32)
        self.missing = self.chunks
        self.awaited = {}  # the chunk under way in each slot
        for chunk in range(min(slots, self.chunks)):
            self.send_chunk(chunk)
        self.finish_if_complete()

    def send_chunk(self, chunk):
        slot, version = chunk % self.slots, chunk // self.slots % 2
        values = self.tensor[chunk * wire.LANES : (chunk + 1) * wire.LANES]
        self.send(wire.update(self.number, values, slot=slot, chunk=chunk, version=version))
        self.awaited[slot] = chunk
        self.set_timer(self.rto, str(slot))

    def expire(self, timer):
        self.send_chunk(self.awaited[int(timer)])

    def receive(self, packet):
        got = wire.read(packet)
        if got is None or got.kind != wire.RESULT or self.awaited.get(got.slot) != got.chunk:
            return  # not a sum, or one that came before
        del self.awaited[got.slot]
        self.cancel_timer(str(got.slot))
        self.sum[got.chunk * wire.LANES : (got.chunk + 1) * wire.LANES] = got.values
        self.missing -= 1
        if got.chunk + self.slots < self.chunks:
            self.send_chunk(got.chunk + self.slots)
        self.finish_if_complete()

    def finish_if_complete(self):
        if self.missing == 0:
            self.finish(self.sum[: len(self.tensor)])
