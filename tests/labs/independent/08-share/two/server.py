"""Lab 8: a job's server."""

import atp_wire
import numpy as np

from inalab.testbed.lab.host import Host


class Server(Host):
    def start(self, job, workers):
        self.job, self.all_workers = job, (1 << workers) - 1
        self.sums = np.zeros((16, atp_wire.LANES), np.int32)  # one row for each chunk
        self.bitmaps = np.zeros(16, np.uint8)  # whose vectors are in it
        self.results = {}  # chunk -> the packet that went out
        self.finish()  # it has no result of its own, and serves as long as anybody sends

    def grow(self, rows):
        old = len(self.bitmaps)
        if rows > old:
            new = max(rows, 2 * old)
            self.sums = np.concatenate([self.sums, np.zeros((new - old, atp_wire.LANES), np.int32)])
            self.bitmaps = np.concatenate([self.bitmaps, np.zeros(new - old, np.uint8)])

    def receive(self, packet):
        got = atp_wire.read(packet)
        if got is None or got.kind != atp_wire.GRADIENT or got.job != self.job:
            return
        chunk = got.chunk
        if chunk in self.results:
            if got.resend:
                self.send(self.results[chunk])
            return
        self.grow(chunk + 1)
        held = int(self.bitmaps[chunk])
        if held & got.bitmap:
            return
        self.sums[chunk] += got.values
        self.bitmaps[chunk] = held | got.bitmap
        if held | got.bitmap == self.all_workers:
            self.send_result(got, self.sums[chunk])

    def send_result(self, got, values):
        result = atp_wire.Packet(atp_wire.RESULT, self.job, self.all_workers, 0, got.index, got.chunk, values)
        ready = atp_wire.write(result, atp_wire.server_address(self.job), atp_wire.EVERYBODY)
        self.results[got.chunk] = ready
        self.send(ready)
