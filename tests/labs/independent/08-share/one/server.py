"""Lab 8: a job's server."""

import atp_wire
import numpy as np

from inalab.testbed.lab.host import Host


class Chunk:
    """The sum of one chunk as far as it is known."""

    def __init__(self, everybody):
        self.missing = everybody
        self.sum = np.zeros(atp_wire.LANES, np.int32)

    @property
    def complete(self):
        return self.missing == 0

    def take(self, bitmap, values):
        """Add it if all of its workers are missing; says whether it did."""
        if not bitmap or bitmap & ~self.missing:
            return False
        self.missing ^= bitmap
        self.sum = self.sum + values
        return True


class Server(Host):
    def start(self, job, workers):
        self.job, self.all_workers = job, (1 << workers) - 1
        self.chunks = {}
        self.finish()  # it has no result of its own, and serves as long as anybody sends

    def receive(self, packet):
        got = atp_wire.read(packet)  # got.bitmap says whose vectors are in got.values
        if got is None or got.kind != atp_wire.GRADIENT or got.job != self.job:
            return
        if got.chunk not in self.chunks:
            self.chunks[got.chunk] = Chunk(self.all_workers)
        chunk = self.chunks[got.chunk]
        was_complete = chunk.complete
        added = chunk.take(got.bitmap, got.values)
        if chunk.complete and (added or (was_complete and got.resend)):
            self.send_result(got, chunk.sum)

    def send_result(self, got, values):
        result = atp_wire.Packet(atp_wire.RESULT, self.job, self.all_workers, 0, got.index, got.chunk, values)
        self.send(atp_wire.write(result, atp_wire.server_address(self.job), atp_wire.EVERYBODY))
