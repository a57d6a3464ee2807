"""Lab 10: shards. Worker w adds chunks w, w + n, w + 2n, …: all send it theirs over UDP, and it sends them the sums."""

import select
import socket
import struct
import time
from itertools import islice

import numpy as np

from inalab.hosts.collective import AggregationError, Counters, Summing
from inalab.hosts.stream.retransmission import RetransmissionTimer
from inalab.schemes.scheme import Look, Scheme

PORT, K, WINDOW = 47000, 256, 12
HEADER = struct.Struct(">III")  # epoch, number of the sum, number of the chunk
FRAME = 14 + 20 + 8 + HEADER.size + 4 * K  # bytes: Ethernet, IPv4, UDP, header, vector
LINGER = 1.0  # seconds that a worker still answers after its last sum


class ShardWorker(Summing):
    def __init__(self, place, epoch):
        super().__init__()
        self.place, self.epoch = place, epoch
        self.rank, self.size, self.job = place.membership.rank, place.membership.size, place.membership.job
        self.counters, self.timer = Counters(), RetransmissionTimer(initial=1.0, shortest=0.05)
        self.started, self.numbers = 0, {}
        self.parts = {}  # of the chunks that this worker adds, by sum and chunk: the vectors by rank
        self.sums = {}  # and those that are complete, as packets
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((place.peers[self.rank], PORT))
        self.socket.setblocking(False)

    def _start(self, started):
        self.numbers[started], self.started = self.started, self.started + 1

    def _advance(self, started, interrupt):
        number, dtype = self.numbers.pop(started), started.flat.dtype
        vectors = np.zeros((-(-started.flat.size // K), K), dtype)
        vectors.reshape(-1)[: started.flat.size] = started.flat
        missing, sent, heard = dict.fromkeys(range(len(vectors))), {}, time.monotonic()
        for chunk in range(self.rank, len(vectors), self.size):
            self._add(self.rank, number, chunk, vectors[chunk].tobytes())
        while missing:
            now = time.monotonic()
            if now - heard > self.place.settings.patience:
                chunk = next(iter(missing))
                whom = f"worker {chunk % self.size} does not send the sum of chunk {chunk}"
                raise AggregationError(f"worker {self.rank}: job {self.job} cannot be completed: {whom}")
            others = (chunk for chunk in missing if chunk % self.size != self.rank)
            for chunk in list(islice(others, WINDOW)):
                when, tries = sent.get(chunk, (now, -1))
                if tries < 0 or now - when > self.timer.timeout * 2 ** min(tries, 2):
                    self._send(chunk % self.size, HEADER.pack(self.epoch, number, chunk) + vectors[chunk].tobytes())
                    self.counters.retransmissions += tries >= 0
                    sent[chunk] = now, tries + 1
            for source, of, chunk, data in self._receive(0.02):
                heard = time.monotonic()
                if chunk % self.size == self.rank:
                    self._add(source, of, chunk, data)
                elif of == number and chunk in missing:
                    vectors[chunk] = np.frombuffer(data, dtype)
                    if sent[chunk][1] == 0:
                        self.timer.sample(np.array([heard - sent[chunk][0]]))
                    del missing[chunk]
                    self.counters.results += 1
            self._complete(number, dtype)
            for chunk in [c for c in missing if (number, c) in self.sums]:
                vectors[chunk] = np.frombuffer(self.sums[number, chunk], dtype, offset=HEADER.size)
                del missing[chunk]
        self.sums = {key: packet for key, packet in self.sums.items() if key[0] >= number}  # nobody is further behind
        started.end(vectors)

    def _attend(self, interrupt):
        """Another worker may lack a sum, or be ahead: answer the one, and keep what the other sends."""
        while not select.select([self.socket, interrupt], [], [])[0].count(interrupt):
            for source, number, chunk, data in self._receive(0):
                if chunk % self.size == self.rank:
                    self._add(source, number, chunk, data)

    def _add(self, source, number, chunk, data):
        if packet := self.sums.get((number, chunk)):
            self._send(source, packet)  # which was lost on its way
        elif number >= self.started - 1:
            self.parts.setdefault((number, chunk), {})[source] = data

    def _complete(self, number, dtype):
        """Send the sums of chunks that all workers have sent. They are added in the order of the ranks."""
        for key in [key for key, parts in self.parts.items() if key[0] == number and len(parts) == self.size]:
            vectors = self.parts.pop(key)
            total = np.sum([np.frombuffer(vectors[rank], dtype) for rank in range(self.size)], axis=0, dtype=dtype)
            self.sums[key] = HEADER.pack(self.epoch, *key) + total.tobytes()
            for rank in range(self.size):
                if rank != self.rank:
                    self._send(rank, self.sums[key])

    def _send(self, rank, packet):
        self.socket.sendto(packet, (self.place.peers[rank], PORT))
        self.counters.sent += 1

    def _receive(self, seconds):
        ready = select.select([self.socket], [], [], seconds)[0]
        for _ in range(64 if ready else 0):
            try:
                packet, (address, _) = self.socket.recvfrom(2048)
            except BlockingIOError:
                return
            epoch, number, chunk = HEADER.unpack_from(packet)
            if epoch == self.epoch:
                yield self.place.peers.index(address), number, chunk, packet[HEADER.size :]

    def close(self):
        while late := list(self._receive(LINGER)):
            for source, number, chunk, data in late:
                if chunk % self.size == self.rank:
                    self._add(source, number, chunk, data)
        self.socket.close()


class Shards(Scheme):
    name = "shards"
    look = Look("shards over UDP", "#8c564b", "*")

    def join(self, place, epoch, pulse=None):
        return ShardWorker(place, epoch)

    def framing(self, settings, elements):
        return -(-elements // K) * FRAME / (4 * elements)

    def bound(self, plan, settings, elements):
        """Each worker's link carries all chunks but its own, and for each of its own n - 1 copies of the sum."""
        chunks, n = -(-elements // K), len(plan.hosts)
        own = -(-chunks // n)
        packets = chunks - own + (n - 1) * own
        return packets * (FRAME + 24) * 8 / (min(plan.rates(plan.hosts)) * 1e6)  # bits, with preamble, check sequence and gap

    def uplink_tensors(self, plan, settings, elements):
        away = plan.topology.size - plan.topology.workers
        return 2 * away * plan.topology.workers / plan.topology.size * self.framing(settings, elements)


SCHEME = Shards()
