"""Lab 13: who is in the group, and when its sum counts."""

import wire
from group_worker import ALIVE, COMMIT, DONE, GROUP

from inalab.testbed.lab.host import Host


class Coordinator(Host):
    def start(self, workers, period, patience):
        self.period, self.patience = period, patience
        self.epoch, self.members, self.committed = 0, set(range(workers)), False
        self.heard = dict.fromkeys(range(workers), self.now)
        self.finish()  # it has no result of its own, and serves as long as anybody sends
        self.new_group()
        self.set_timer(self.period)

    def new_group(self):
        self.epoch, self.done = self.epoch + 1, set()
        self.tell(GROUP)

    def tell(self, kind):
        bitmap = sum(1 << worker for worker in self.members)
        self.send(wire.update(0, [bitmap], job=self.epoch, kind=kind, to=b"\xff" * 6))

    def expire(self, timer):
        dead = {worker for worker in self.members if self.now - self.heard[worker] > self.patience}
        if dead and not self.committed:
            self.members -= dead
            if self.members:
                self.new_group()
        self.set_timer(self.period)

    def receive(self, packet):
        got = wire.read(packet)
        if got is None or got.kind not in (ALIVE, DONE):
            return
        if got.worker in self.members:
            self.heard[got.worker] = self.now
        if got.job != self.epoch:
            self.tell(GROUP)  # it has not heard of this group, or is not in it
        elif got.kind == DONE and got.worker in self.members:
            self.done.add(got.worker)
            self.committed = self.committed or self.done == self.members
            if self.committed:
                self.tell(COMMIT)  # again, if this worker has missed it
