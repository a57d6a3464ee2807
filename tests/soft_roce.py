"""A reliable connection with the kernel's Soft-RoCE at one end, and hosts/roce's core at the other."""

from __future__ import annotations

import json
import random
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from inalab.hosts.cores import ffi, library
from inalab.hosts.drivers import verbs
from inalab.hosts.roce.settings import PAYLOAD, SIZES, QueuePairs
from inalab.hosts.roce.wire import OPCODES, UDP_PORT, address
from tests.roce import icrc

OURS, ITS = "192.0.2.1", "192.0.2.2"  # RFC 5737
NUMBER = 17  # of our queue pair
FIRST = {OURS: 2**24 - 3, ITS: 2**24 - 40}  # numbers of both ends' first packets, which wrap
KEY, BEGIN, MEMORY = 77, 0x5000, 8192  # of our region
MOST = SIZES["RC_MESSAGE"]
BUFFERS = 64  # of the kernel's, for as many messages
UDP_HEADERS = 20 + 8  # bytes of IPv4 and UDP
SO_NO_CHECK, SO_RCVBUFFORCE, IP_MTU_DISCOVER, IP_PMTUDISC_DO = 11, 33, 10, 2
PATIENCE = 60.0  # seconds


def ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


@contextmanager
def joined() -> Iterator[verbs.KernelDevice]:
    """A device of the machine's network namespace, and the other end of its link here; both go with this namespace, or before."""
    ip("link", "add", "ours", "type", "veth", "peer", "name", "its")
    for name, own, other in (("ours", OURS, ITS), ("its", ITS, OURS)):
        ip("address", "add", own, "peer", other, "dev", name)
        ip("link", "set", name, "up")
    (ours,) = json.loads(ip("-json", "link", "show", "ours"))
    ip("neighbor", "replace", OURS, "lladdr", ours["address"], "nud", "permanent", "dev", "its")
    yield verbs.KernelDevice(ITS, OURS, verbs.machine_network())
    ip("link", "delete", "ours")


class Came(NamedTuple):
    """A completion of the kernel's: of what it was asked to do, or of a message from our end."""

    status: int
    opcode: int
    message: bytes
    immediate: int | None


class Kernel:
    """A queue pair of Soft-RoCE's. It has memory for messages of both directions, which our end may write to."""

    def __init__(self, device: verbs.KernelDevice) -> None:
        pyverbs = verbs.pyverbs()
        self.enums: Any = pyverbs.enums
        self.gid = device.gid()
        self.memory = np.zeros((2, BUFFERS, MOST), np.uint8)
        self.context = pyverbs.device.Context(name=device.name)
        self.domain = pyverbs.pd.PD(self.context)
        self.queue = pyverbs.cq.CQ(self.context, 4 * BUFFERS)
        access = self.enums.IBV_ACCESS_LOCAL_WRITE | self.enums.IBV_ACCESS_REMOTE_WRITE
        self.region = pyverbs.mr.MR(self.domain, self.memory.nbytes, access, address=self.place(0, 0))
        capacity = pyverbs.qp.QPCap(max_send_wr=BUFFERS, max_recv_wr=BUFFERS, max_send_sge=1, max_recv_sge=1)
        wanted = pyverbs.qp.QPInitAttr(qp_type=self.enums.IBV_QPT_RC, cap=capacity, scq=self.queue, rcq=self.queue)
        self.pair = pyverbs.qp.QP(self.domain, wanted)
        self.came, self.posted = list[Came](), [0, 0]  # completions; buffers that were used to receive and to send

    def place(self, direction: int, buffer: int) -> int:
        return int(self.memory[direction, buffer].ctypes.data)

    def connect(self) -> None:
        attributes = verbs.connection(self.gid, OURS, PAYLOAD, NUMBER)
        attributes.rq_psn, attributes.sq_psn = FIRST[OURS], FIRST[ITS]
        attributes.timeout, attributes.retry_cnt, attributes.rnr_retry = 14, 7, 7  # 67 ms; 7 times; for ever
        attributes.min_rnr_timer = 12  # 0.64 ms
        attributes.max_rd_atomic = 1
        self.pair.to_rts(attributes)

    def await_messages(self, count: int, size: int = MOST) -> None:
        """Give it buffers."""
        parts = verbs.pyverbs().wr
        for _ in range(count):
            buffer = self.posted[0] % BUFFERS
            room = parts.SGE(self.place(0, buffer), size, self.region.lkey)
            self.pair.post_recv(parts.RecvWR(wr_id=buffer, num_sge=1, sg=[room]))
            self.posted[0] += 1

    def post(self, payload: bytes, opcode: int, immediate: int = 0, write: tuple[int, int] = (0, 0)) -> None:
        """Have it send or write, to an address with a key."""
        parts = verbs.pyverbs().wr
        buffer = self.posted[1] % BUFFERS
        self.memory[1, buffer, : len(payload)] = np.frombuffer(payload, np.uint8)
        request = parts.SendWR(
            wr_id=buffer, opcode=opcode, num_sge=1, sg=[parts.SGE(self.place(1, buffer), len(payload), self.region.lkey)],
            imm_data=socket.htonl(immediate), send_flags=self.enums.IBV_SEND_SIGNALED,
        )  # fmt: skip
        request.set_wr_rdma(write[1], write[0])
        self.pair.post_send(request)
        self.posted[1] += 1

    def turn(self) -> None:
        """Note what has completed."""
        _, found = self.queue.poll(BUFFERS)
        for one in found:
            received = not one.status and one.opcode == self.enums.IBV_WC_RECV
            message = self.memory[0, one.wr_id, : one.byte_len].tobytes() if received else b""
            with_immediate = one.wc_flags & self.enums.IBV_WC_WITH_IMM
            self.came.append(Came(one.status, one.opcode, message, socket.ntohl(one.imm_data) if with_immediate else None))

    def close(self) -> None:
        for one in (self.pair, self.region, self.queue, self.domain, self.context):
            one.close()


class Own:
    """Our end, by sockets. Each packet is lost with this probability, in each direction."""

    def __init__(self, loss: float) -> None:
        settings = QueuePairs((0.0, 0.0)).on(0.0, PATIENCE)
        self.core = ffi.gc(library().adapter_new(1, NUMBER, settings), library().adapter_free)
        self.q = self.core.pairs[0]
        self.memory = np.full(3 * MEMORY, 0xEE, np.uint8)
        region, self.core.regions_count = self.core.regions[0], 1
        region.address, region.length, region.key = BEGIN, MEMORY, KEY
        region.memory = ffi.cast("uint8_t *", self.memory.ctypes.data + MEMORY)
        self.came, self.reading, self.syndromes = bytearray(), True, {OURS: list[int](), ITS: list[int]()}
        self.chance = {OURS: random.Random(1), ITS: random.Random(2)}
        self.loss, self.lost = loss, {OURS: 0, ITS: 0}
        self.sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sender.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
        self.sender.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)
        self.sender.bind((OURS, UDP_PORT))
        self.receiver = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)  # which tells IP's identification
        self.receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 22)  # so that nothing is lost here but by chance
        self.receiver.bind((OURS, 0))
        self.receiver.connect((ITS, 0))

    def connect(self, remote: int) -> None:
        used = address(OURS), address(ITS), UDP_PORT, 0, remote, FIRST[OURS], FIRST[ITS], time.monotonic()
        library().adapter_connect(self.core, 0, *used)

    def post(self, payload: bytes, write: tuple[int, int] | None = None, immediate: int | None = None) -> bool:
        """Send, or write to an address with a key."""
        how = int(write is not None), payload, len(payload), *(write or (0, 0)), immediate is not None, immediate or 0
        return bool(library().rc_post(self.core.pairs, ffi.addressof(self.core.settings), *how))

    def turn(self) -> None:
        """Send what may leave, take in what is there."""
        packet, now = ffi.new("uint8_t[]", SIZES["RC_PACKET"]), time.monotonic()
        library().adapter_expired(self.core, now)
        while length := library().adapter_next(self.core, packet, now).length:
            made = bytes(ffi.buffer(packet, length))
            if self._arrives(OURS, made):
                self.sender.sendto(made, (ITS, UDP_PORT))
        while (datagram := self._received()) is not None:
            if not self._arrives(ITS, datagram[UDP_HEADERS:]):
                continue
            assert icrc(datagram) == int.from_bytes(datagram[-4:], "little")  # by zlib
            identification, self.q.remote_port = struct.unpack(">4xH14xH", datagram[:22])  # which are the kernel's choice
            made = datagram[UDP_HEADERS:]
            library().adapter_received(self.core, made, len(made), identification, False, time.monotonic())
        into = ffi.new("uint8_t[]", MOST)
        while self.reading and (size := library().rc_take(self.core.pairs, into, MOST)):
            self.came += bytes(ffi.buffer(into, size))

    def _received(self) -> bytes | None:
        try:
            return self.receiver.recv(2048, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None

    def _arrives(self, sender: str, packet: bytes) -> bool:
        """Whether a packet is not lost; what acknowledgments say is noted."""
        if packet[0] == OPCODES["RC_ACKNOWLEDGE"]:
            self.syndromes[sender].append(packet[12])
        lost = self.chance[sender].random() < self.loss
        self.lost[sender] += lost
        return not lost

    def dropped(self) -> dict[str, int]:
        """Packets, by reason."""
        return {name: getattr(self.core.dropped, name) for name, _ in ffi.typeof("RoceDropped").fields}


class Both:
    """A connection between the two."""

    def __init__(self, device: verbs.KernelDevice, loss: float) -> None:
        self.kernel, self.own = Kernel(device), Own(loss)
        self.own.connect(self.kernel.pair.qp_num)
        self.kernel.connect()

    def run(self, condition: Callable[[], object]) -> None:
        """Until it is so."""
        until = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < until, (self.own.q.ended, self.own.dropped(), self.own.syndromes, self.kernel.came[-3:])
            self.turn()

    def turn(self) -> None:
        self.own.turn()
        self.kernel.turn()

    def pass_time(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        self.run(lambda: time.monotonic() >= until)

    def settle(self) -> None:
        """Until all that our end has posted has arrived."""
        self.run(lambda: self.own.q.acknowledged == self.own.q.posted)
        assert not self.own.q.ended
