"""Lab 13: who is in the group, and when its sum counts. You write what is marked TODO."""

import wire
from group_worker import ALIVE, COMMIT, DONE, GROUP  # noqa: F401 (you will want them)

from inalab.testbed.lab.host import Host


class Coordinator(Host):
    def start(self, workers, period, patience):
        """Workers 0 to workers - 1 make the first group. Each says every `period` that it is alive. Microseconds."""
        self.period, self.patience = period, patience
        self.epoch, self.members = 0, set(range(workers))
        self.finish()  # it has no result of its own, and serves as long as anybody sends
        # TODO 5: the first group has epoch 1; what must be remembered of each worker?

    def tell(self, kind):
        bitmap = sum(1 << worker for worker in self.members)
        self.send(wire.update(0, [bitmap], job=self.epoch, kind=kind, to=b"\xff" * 6))

    def expire(self, timer):
        # TODO 6: whoever has not been heard for longer than `patience` is dead: a new group, with the next epoch
        pass

    def receive(self, packet):
        got = wire.read(packet)  # got.kind, got.worker; got.job is the epoch that the worker is in
        # TODO 6: note who is alive; TODO 7: a worker in another epoch needs the GROUP again
        # TODO 8: COMMIT when every member is DONE in this epoch, and again for whoever has missed it
