"""A worker of a job that shares a switch. (Given.) Reading it tells what the switch and the server must do."""

import struct
import zlib

import atp_wire
import numpy as np

from inalab.testbed.lab.host import Host


class Worker(Host):
    def start(self, number, job, tensor, aggregators, window, rto):
        """`aggregators` is how many the switch has; `window` is how many chunks may be under way; `rto` in microseconds."""
        self.number, self.job, self.tensor = number, job, tensor
        self.aggregators, self.rto = aggregators, rto
        self.chunks = -(-len(tensor) // atp_wire.LANES)
        self.sum = np.zeros(self.chunks * atp_wire.LANES, np.int32)
        self.waiting = set(range(self.chunks))
        self.next = 0
        for _ in range(window):
            self.send_next()

    def send_next(self):
        if self.next < self.chunks:
            self.send_chunk(self.next, resend=0)
            self.next += 1

    def index(self, chunk):
        """The aggregator that a chunk asks for: the same for all workers of a job; chunks of two jobs may ask for the same."""
        return zlib.crc32(struct.pack(">BI", self.job, chunk)) % self.aggregators

    def send_chunk(self, chunk, resend):
        values = self.tensor[chunk * atp_wire.LANES : (chunk + 1) * atp_wire.LANES]
        packet = atp_wire.Packet(atp_wire.GRADIENT, self.job, 1 << self.number, resend, self.index(chunk), chunk, values)
        self.send(atp_wire.write(packet, atp_wire.worker_address(self.job, self.number), atp_wire.server_address(self.job)))
        self.set_timer(self.rto, str(chunk))

    def expire(self, timer):
        self.send_chunk(int(timer), resend=1)

    def receive(self, packet):
        got = atp_wire.read(packet)
        if got is None or got.kind != atp_wire.RESULT or got.chunk not in self.waiting:
            return
        self.waiting.remove(got.chunk)
        self.cancel_timer(str(got.chunk))
        self.sum[got.chunk * atp_wire.LANES : (got.chunk + 1) * atp_wire.LANES] = got.values
        self.send_next()
        if not self.waiting:
            self.finish(self.sum[: len(self.tensor)])
