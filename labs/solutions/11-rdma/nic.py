"""Lab 11: a worker that writes its tensor to the switch, and has the sums written to its memory."""

import zlib

import numpy as np
import roce

from inalab.testbed.lab.host import Host

CHANGING = (1, 8, 10, 11, 26, 27, 32)  # bytes behind Ethernet: service, time to live, checksums of IP and UDP, the BTH's fifth


def icrc(frame):
    """The ICRC of a frame, whose last four bytes are for it."""
    covered = bytearray(frame[14 : -roce.ICRC])
    for at in CHANGING:
        covered[at] = 0xFF
    return zlib.crc32(b"\xff" * 8 + covered).to_bytes(4, "little")


class Worker(Host):
    def start(self, number, tensor, pairs, packets, rto, key, memory):
        self.number, self.pairs, self.packets, self.rto = number, pairs, packets, rto
        self.key, self.memory = key, memory
        self.octets, self.bytes = tensor.astype(">i4").tobytes(), bytearray(4 * len(tensor))
        self.size = packets * roce.MTU
        self.messages = -(-len(self.octets) // self.size)
        self.psn = [pair["psn"] for pair in pairs]  # of the next packet of each queue pair
        self.awaited = {}  # the message under way in each queue pair
        self.open = {}  # the message that arrives on each queue pair: expected PSN, where it goes on, bytes that are missing
        self.missing = self.messages
        for message in range(min(len(pairs), self.messages)):
            self.send_message(message)

    def send_message(self, message):
        pair = message % len(self.pairs)
        begin = message * self.size
        octets = self.octets[begin : begin + self.size]
        parts = [octets[at : at + roce.MTU] for at in range(0, len(octets), roce.MTU)]
        entry = (message // len(self.pairs) % 2 * len(self.pairs) + pair) * self.packets
        for n, part in enumerate(parts):
            first, last = n == 0, n == len(parts) - 1
            opcode = (roce.ONLY if last else roce.FIRST) if first else (roce.LAST if last else roce.MIDDLE)
            headers = roce.BTH.pack(opcode, 0, 0xFFFF, self.pairs[pair]["switch"], self.psn[pair])
            if first:
                headers += roce.RETH.pack(self.memory + begin, entry, len(octets))
            if last:
                headers += roce.IMMEDIATE.pack(message)
            self.psn[pair] = (self.psn[pair] + 1) % roce.PSNS
            frame = roce.frame(self.number, headers + part)
            self.send(frame[: -roce.ICRC] + icrc(frame))
        self.awaited[pair] = message
        self.set_timer(self.rto, str(pair))

    def expire(self, timer):
        self.send_message(self.awaited[int(timer)])

    def receive(self, frame):
        got = roce.read(frame)
        if got is None or frame[-roce.ICRC :] != icrc(frame):
            return
        pair = next((n for n, one in enumerate(self.pairs) if one["own"] == got.queue_pair), None)
        if pair is None:
            return
        expected, at, left = self.open.pop(pair, (None, 0, 0))
        if got.opcode in (roce.FIRST, roce.ONLY):
            at, left = got.address - self.memory, got.length
            if got.key != self.key or at < 0 or at + left > len(self.bytes):
                return
        elif got.psn != expected:
            return  # a packet is missing: so is the message
        last = got.opcode in (roce.LAST, roce.ONLY)
        if len(got.payload) != (left if last else roce.MTU) or len(got.payload) > left:
            return
        self.bytes[at : at + len(got.payload)] = got.payload
        if last:
            self.completed(pair, got.immediate)
        else:
            self.open[pair] = ((got.psn + 1) % roce.PSNS, at + roce.MTU, left - roce.MTU)

    def completed(self, pair, message):
        if self.awaited.get(pair) != message:
            return  # it was complete before
        del self.awaited[pair]
        self.cancel_timer(str(pair))
        self.missing -= 1
        if message + len(self.pairs) < self.messages:
            self.send_message(message + len(self.pairs))
        if self.missing == 0:
            self.finish(np.frombuffer(bytes(self.bytes), ">i4").astype(np.int32))
