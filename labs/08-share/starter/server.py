"""Lab 8: a job's server. You write what is marked TODO."""

import atp_wire
import numpy as np  # noqa: F401 (you will want it)

from inalab.testbed.lab.host import Host


class Server(Host):
    def start(self, job, workers):
        self.job, self.all_workers = job, (1 << workers) - 1
        # TODO 6: what must it remember of each chunk?
        self.finish()  # it has no result of its own, and serves as long as anybody sends

    def receive(self, packet):
        got = atp_wire.read(packet)  # got.bitmap says whose vectors are in got.values
        # TODO 6: add it, unless one of its workers is in already; when all are in, send the result
        # TODO 7: a worker that sends again lacks the result; if there is one, send it again

    def send_result(self, got, values):
        result = atp_wire.Packet(atp_wire.RESULT, self.job, self.all_workers, 0, got.index, got.chunk, values)
        self.send(atp_wire.write(result, atp_wire.server_address(self.job), atp_wire.EVERYBODY))
