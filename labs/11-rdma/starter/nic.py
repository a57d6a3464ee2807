"""Lab 11: a worker that writes its tensor to the switch, and has the sums written to its memory. You write what is marked TODO."""

import zlib  # noqa: F401 (you will want it)

import numpy as np
import roce

from inalab.testbed.lab.host import Host


def icrc(frame):
    """TODO 1: the ICRC (four bytes) of a frame, whose last four bytes are for it."""
    return bytes(4)


class Worker(Host):
    def start(self, number, tensor, pairs, packets, rto, key, memory):
        """`pairs`: for each queue pair a dictionary of "own" and "switch", its numbers at both ends, and "psn", the first to send.

        `packets` is the most that a message has. `memory` is the address where this worker's memory begins, and `key` its key.
        """
        self.number, self.pairs, self.packets, self.rto = number, pairs, packets, rto
        self.key, self.memory = key, memory
        self.octets = tensor.astype(">i4").tobytes()  # what is to be sent
        self.bytes = bytearray(len(self.octets))  # the memory, for the sums
        self.size = packets * roce.MTU  # bytes of a message
        self.messages = -(-len(self.octets) // self.size)
        self.psn = [pair["psn"] for pair in pairs]  # of the next packet of each queue pair
        self.awaited = {}  # the message under way in each queue pair
        self.missing = self.messages
        for message in range(min(len(pairs), self.messages)):
            self.send_message(message)

    def send_message(self, message):
        pair = message % len(self.pairs)
        octets = self.octets[message * self.size : (message + 1) * self.size]
        # TODO 2: cut them into packets, and send each: roce.frame(self.number, headers + part), with its ICRC
        # TODO 5: a timer for this queue pair
        self.awaited[pair] = message

    # TODO 5: def expire(self, timer): the whole message again

    def receive(self, frame):
        got = roce.read(frame)
        # TODO 3: write the payload to self.bytes, and call self.completed with the last packet of a message
        # TODO 4: what is not for this worker's memory, damaged, or out of sequence must change nothing

    def completed(self, pair, message):
        """The sum of a message is in the memory."""
        # TODO 5: it may have been there before
        del self.awaited[pair]
        self.missing -= 1
        if message + len(self.pairs) < self.messages:
            self.send_message(message + len(self.pairs))
        if self.missing == 0:
            self.finish(np.frombuffer(bytes(self.bytes), ">i4").astype(np.int32))
