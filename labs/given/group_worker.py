"""A worker of a group whose members may fail. (Given.) Reading it tells what the switch and the coordinator must do."""

import numpy as np
import wire

from inalab.testbed.lab.host import Host

GROUP, ALIVE, DONE, COMMIT = 3, 4, 5, 6  # kinds, beside wire.UPDATE and wire.RESULT; a packet's `job` is the group's epoch


class Worker(Host):
    def start(self, number, tensor, slots, rto, period):
        """`rto` and `period`, how often it says that it is alive, in microseconds."""
        self.number, self.tensor, self.slots, self.rto, self.period = number, tensor, slots, rto, period
        self.chunks = -(-len(tensor) // wire.LANES)
        self.epoch, self.missing, self.awaited, self.over = 0, -1, {}, False
        self.expire("alive")

    def tell(self, kind):
        self.send(wire.update(self.number, [], job=self.epoch, kind=kind))

    def begin(self, epoch):
        """A new group: begin the sum again. What has come of it holds vectors of workers that have failed since."""
        for slot in self.awaited:
            self.cancel_timer(str(slot))
        self.epoch, self.missing, self.awaited = epoch, self.chunks, {}
        self.sum = np.zeros(self.chunks * wire.LANES, np.int32)
        for chunk in range(min(self.slots, self.chunks)):
            self.send_chunk(chunk)

    def send_chunk(self, chunk):
        slot, version = chunk % self.slots, chunk // self.slots % 2
        values = self.tensor[chunk * wire.LANES : (chunk + 1) * wire.LANES]
        self.send(wire.update(self.number, values, slot=slot, chunk=chunk, version=version, job=self.epoch))
        self.awaited[slot] = chunk
        self.set_timer(self.rto, str(slot))

    def expire(self, timer):
        if self.over:
            return
        if timer == "alive":
            self.tell(ALIVE)
            self.set_timer(self.period, "alive")
        elif timer == "done":
            if self.missing == 0:
                self.tell(DONE)
                self.set_timer(self.rto, "done")
        else:
            self.send_chunk(self.awaited[int(timer)])

    def receive(self, packet):
        got = wire.read(packet)
        if got is None or self.over:
            return
        if got.kind == GROUP and got.job > self.epoch:
            self.join(got.job, int(got.values[0]))
        elif got.kind == wire.RESULT and got.job == self.epoch and self.awaited.get(got.slot) == got.chunk:
            self.store(got)
        elif got.kind == COMMIT and got.job == self.epoch and self.missing == 0:
            self.end(self.sum[: len(self.tensor)])

    def join(self, epoch, members):
        if members >> self.number & 1:
            self.begin(epoch)
        else:
            self.end("out of the group")

    def store(self, got):
        del self.awaited[got.slot]
        self.cancel_timer(str(got.slot))
        self.sum[got.chunk * wire.LANES : (got.chunk + 1) * wire.LANES] = got.values
        self.missing -= 1
        if got.chunk + self.slots < self.chunks:
            self.send_chunk(got.chunk + self.slots)
        if self.missing == 0:
            self.expire("done")

    def end(self, result):
        self.over = True
        self.finish(result)
