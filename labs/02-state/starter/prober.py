"""A host that counts in flow 3 five times, and prints the switch's answers. (Given, for `inalab p4run`.)"""

import struct

from inalab.testbed.lab.host import Host

HEADERS = struct.Struct(">6s6sHBBHI")
COUNT = 1


class Prober(Host):
    def start(self):
        self.answers = []
        self.probe()

    def probe(self):
        switch, own = bytes.fromhex("0800000000fe"), bytes.fromhex("080000000001")
        self.send(HEADERS.pack(switch, own, 0x88B5, COUNT, 3, 0, 0))

    def receive(self, packet):
        self.answers.append(HEADERS.unpack_from(packet)[-1])
        if len(self.answers) < 5:
            self.probe()
        else:
            self.finish(f"the switch answers {self.answers}")
