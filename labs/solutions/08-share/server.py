"""Lab 8: a job's server. It adds what the switch has not, each worker once, and sends the results."""

import atp_wire
import numpy as np

from inalab.testbed.lab.host import Host


class Server(Host):
    def start(self, job, workers):
        self.job, self.all_workers = job, (1 << workers) - 1
        self.added, self.sums = {}, {}  # by chunk: whose vectors are in, and their sum
        self.finish()  # it has no result of its own, and serves as long as anybody sends

    def receive(self, packet):
        got = atp_wire.read(packet)
        if got is None or got.kind != atp_wire.GRADIENT or got.job != self.job:
            return
        added = self.added.get(got.chunk, 0)
        if got.bitmap & added == 0:
            self.added[got.chunk] = added | got.bitmap
            self.sums[got.chunk] = self.sums.get(got.chunk, np.zeros(atp_wire.LANES, np.int32)) + got.values
            if self.added[got.chunk] == self.all_workers:
                self.send_result(got)
        elif added == self.all_workers and got.resend:
            self.send_result(got)  # somebody lacks it

    def send_result(self, got):
        result = atp_wire.Packet(atp_wire.RESULT, self.job, self.all_workers, 0, got.index, got.chunk, self.sums[got.chunk])
        self.send(atp_wire.write(result, atp_wire.server_address(self.job), atp_wire.EVERYBODY))
