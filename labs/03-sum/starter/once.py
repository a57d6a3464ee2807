"""A host that sends one vector, and takes the sum. (Given, for `inalab p4run`.)"""

import wire

from inalab.testbed.lab.host import Host


class Worker(Host):
    def start(self, number, tensor):
        self.send(wire.update(number, tensor))

    def receive(self, packet):
        got = wire.read(packet)
        if got is not None and got.kind == wire.RESULT:
            self.finish(got.values)
