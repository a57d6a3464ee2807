"""Queue pairs of the kernel's own RDMA (Soft-RoCE, rdma_rxe) by pyverbs: an endpoint that takes messages and gives messages.

Linux 6.1 serves RoCE in the machine's own network namespace alone. So a worker hands its data interface over to that one; the
interface goes with its other end, when the trial's namespaces do.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import shutil
import socket
import subprocess
import sys
import time
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from inalab.hosts.collective import NEVER
from inalab.hosts.drivers.driver import Address
from inalab.hosts.drivers.sockets import SocketDriver
from inalab.hosts.stream.datagrams import Datagrams

SYSTEM = "/usr/lib/python3/dist-packages"  # where Debian's python3-pyverbs is
DEVICES = Path("/sys/class/infiniband")
PATIENCE = 10.0  # seconds for the kernel to know an interface's address
POLL = 0.0005  # seconds between two looks at completions
MTU = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}  # enum ibv_mtu


class VerbsError(RuntimeError):
    """The kernel's RDMA cannot be used; str() says what is missing."""


MACHINE = "INALAB_MACHINE_NETWORK"  # in the environment: a descriptor of the machine's network namespace


def machine_network() -> int:
    """That descriptor."""
    if MACHINE not in os.environ:
        raise VerbsError("roce=kernel is of targets embedded and bmv2, as root: choose one of them, or leave roce out")
    return int(os.environ[MACHINE])


def missing() -> str:
    """What this machine lacks for roce=kernel, in a sentence; nothing where it has all."""
    if os.geteuid() != 0:
        return "roce=kernel makes RDMA devices, which root may: run with sudo, or leave roce out"
    for tool in ("rdma", "nsenter"):
        if shutil.which(tool) is None:
            return f"roce=kernel needs the command {tool} (packages iproute2 and util-linux): install it, or leave roce out"
    modprobe = shutil.which("modprobe")
    loaded = Path("/sys/module/rdma_rxe").exists() or (
        modprobe and subprocess.run([modprobe, "-q", "rdma_rxe"], check=False).returncode == 0
    )
    if not loaded:
        return "roce=kernel needs Linux's Soft-RoCE, and this kernel has no module rdma_rxe: run on one that has, or leave roce out"
    try:
        pyverbs()
    except VerbsError as error:
        return str(error)
    return ""


@cache
def pyverbs() -> Any:
    """Debian's pyverbs."""
    if SYSTEM not in sys.path:
        sys.path.append(SYSTEM)
    try:
        for part in ("addr", "cq", "device", "enums", "mr", "pd", "qp", "wr"):
            import_module(f"pyverbs.{part}")
    except ImportError as error:
        raise VerbsError(f"roce=kernel needs pyverbs: apt-get install python3-pyverbs ({error})") from None
    return sys.modules["pyverbs"]


def _run(*words: str, of_machine: int | None = None) -> str:
    """A command's output; `of_machine` is the network namespace that it runs in, if that is another."""
    enter = ["nsenter", f"--net=/proc/self/fd/{of_machine}"] if of_machine is not None else []
    done = subprocess.run(
        [*enter, *words], capture_output=True, text=True, check=False, pass_fds=() if of_machine is None else (of_machine,)
    )
    if done.returncode:
        raise VerbsError(f"roce=kernel: {' '.join(words)} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


class KernelDevice:
    """This host's data interface as an RDMA device of the machine's network namespace, whose descriptor is `machine`."""

    def __init__(self, ip: str, switch: str, machine: int) -> None:
        found = next(one for one in json.loads(_run("ip", "-j", "-4", "addr", "show")) if _has(one, ip))
        mac = json.loads(_run("ip", "-j", "neigh", "show", switch))[0]["lladdr"]
        name, old = f"rx{secrets.token_hex(4)}", found["ifname"]
        _run("ip", "link", "set", old, "down")
        _run("ip", "link", "set", old, "name", name)
        _run("ip", "link", "set", name, "netns", f"/proc/{os.getpid()}/fd/{machine}")
        for words in (
            f"addr replace {ip}/32 dev {name}",
            f"link set {name} up",
            f"route add {switch}/32 dev {name} metric {_metric(ip)}",  # interfaces to the same switch have routes of their own
            f"neigh replace {switch} lladdr {mac} nud permanent dev {name}",
        ):
            _run("ip", *words.split(), of_machine=machine)
        _run("rdma", "link", "add", name, "type", "rxe", "netdev", name, of_machine=machine)
        self.name, self.ip = name, ip

    def gid(self) -> int:
        """The index of the RoCEv2 address for the interface's IPv4 address."""
        gids, wanted = DEVICES / self.name / "ports/1", _gid(self.ip)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            for index in range(16):
                try:
                    its, kind = ((gids / name / str(index)).read_text().strip() for name in ("gids", "gid_attrs/types"))
                except OSError:
                    continue
                if its == wanted and kind == "RoCE v2":
                    return index
            time.sleep(POLL)
        raise VerbsError(f"roce=kernel: device {self.name} has no RoCE v2 address for {self.ip}")


def connection(gid: int, other: str, payload: int, remote: int) -> Any:
    """What connects a queue pair: the index of its device's address, the other end's address and number, bytes of a packet."""
    verbs = pyverbs()
    route = verbs.addr.GlobalRoute(dgid=verbs.addr.GID(_gid(other)), sgid_index=gid)
    attributes = verbs.qp.QPAttr(port_num=1)
    attributes.qp_access_flags = verbs.enums.IBV_ACCESS_REMOTE_WRITE
    attributes.path_mtu = MTU[payload]
    attributes.dest_qp_num = remote
    attributes.rq_psn = attributes.sq_psn = 0
    attributes.ah_attr = verbs.addr.AHAttr(gr=route, is_global=1, port_num=1)
    return attributes


def _metric(ip: str) -> int:
    """Of the route from an address."""
    return 1 + int.from_bytes(socket.inet_aton(ip)[2:], "big")


def _gid(ip: str) -> str:
    """An IPv4 address as RoCEv2 has it."""
    octets = socket.inet_aton(ip).hex()
    return f"0000:0000:0000:0000:0000:ffff:{octets[:4]}:{octets[4:]}"


def _has(interface: dict[str, Any], ip: str) -> bool:
    return any(one.get("local") == ip for one in interface.get("addr_info", ()))


class Messages(Protocol):
    """A core whose rows are hosts.roce.wire.work: what is to be written, and what has been."""

    sender: Datagrams
    ends: tuple[Address, Address]  # this one and the other
    payload: int  # bytes of a packet (the path's MTU)

    @property
    def remotes(self) -> list[int]:
        """Numbers of the other end's queue pairs."""
        ...

    @property
    def landing(self) -> tuple[int, int]:
        """Where the other end writes to: address and bytes."""
        ...

    def use_interface(self, numbers: list[int], key: int) -> None:
        """Its queue pairs have these numbers at this end, and the landing this key."""
        ...


class VerbsEndpoint:
    """A hosts.drivers.driver.Endpoint."""

    def __init__(self, device: KernelDevice, core: Messages, receive_rows: int) -> None:
        verbs = pyverbs()
        self.core, self.enums = core, verbs.enums
        self.receiver = Datagrams(receive_rows, core.sender.record)
        self.interrupted, self.come = False, list[tuple[int, ...]]()
        self.context = verbs.device.Context(name=device.name)
        self.domain = verbs.pd.PD(self.context)
        self.completions = verbs.cq.CQ(self.context, 4 * receive_rows)
        access, octets = self.enums.IBV_ACCESS_LOCAL_WRITE, core.sender.octets
        address, length = core.landing
        self.landing = verbs.mr.MR(self.domain, length, access | self.enums.IBV_ACCESS_REMOTE_WRITE, address=address)
        self.packets = verbs.mr.MR(self.domain, octets.nbytes, access, address=int(octets.ctypes.data))
        self.gid = device.gid()
        self.queue_pairs = [self._queue_pair(receive_rows) for _ in core.remotes]
        for pair in range(len(self.queue_pairs)):
            self._begin(pair)
        self.by_number = {qp.qp_num: pair for pair, qp in enumerate(self.queue_pairs)}
        core.use_interface(list(self.by_number), self.landing.rkey)

    def _queue_pair(self, rows: int) -> Any:
        """An unreliable connection."""
        verbs = pyverbs()
        capacity = verbs.qp.QPCap(max_send_wr=rows, max_recv_wr=rows, max_send_sge=1, max_recv_sge=1)
        ends = {"scq": self.completions, "rcq": self.completions}
        return verbs.qp.QP(self.domain, verbs.qp.QPInitAttr(qp_type=self.enums.IBV_QPT_UC, cap=capacity, **ends))

    def _begin(self, pair: int) -> None:
        """Have a queue pair send and receive, from its beginning if it did before."""
        verbs, enums, qp = pyverbs(), self.enums, self.queue_pairs[pair]
        if qp.qp_state != enums.IBV_QPS_RESET:
            qp.modify(verbs.qp.QPAttr(qp_state=enums.IBV_QPS_RESET), enums.IBV_QP_STATE)
        qp.to_rts(connection(self.gid, self.core.ends[1][0], self.core.payload, self.core.remotes[pair]))
        for _ in range(len(self.receiver)):
            qp.post_recv(self._awaited())

    def _awaited(self) -> Any:
        """What takes the immediate of a write. pyverbs wants memory with it, which no write uses."""
        verbs = pyverbs()
        return verbs.wr.RecvWR(num_sge=1, sg=[verbs.wr.SGE(self.core.sender.base, 0, self.packets.lkey)])

    def send(self, rows: NDArray[np.intp], length: int | None = None, give_up_at: float | None = None, peer: int = 0) -> int:
        verbs, enums, sender = pyverbs(), self.enums, self.core.sender
        for row in map(int, rows):
            work = sender.data[row]["work"]
            if work["anew"]:  # rxe of Linux 6.1 takes nothing more after the first packets of a write whose last one is lost
                self._begin(int(work["pair"]))
            begin = sender.base + row * sender.stride + work.itemsize
            request = verbs.wr.SendWR(
                wr_id=row, opcode=enums.IBV_WR_RDMA_WRITE_WITH_IMM, num_sge=1,
                sg=[verbs.wr.SGE(begin, int(work["bytes"]), self.packets.lkey)],
                imm_data=socket.htonl(int(work["immediate"])), send_flags=enums.IBV_SEND_SIGNALED,
            )  # fmt: skip
            request.set_wr_rdma(int(work["key"]), int(work["address"]))
            self.queue_pairs[int(work["pair"])].post_send(request)
        return len(rows)

    def set_urgent(self, urgent: bool) -> None:
        """A queue pair keeps its order."""

    def wait(self, seconds: float, interrupt: int = NEVER) -> bool:
        until = time.monotonic() + seconds
        while not self._poll():
            if interrupt != NEVER and select.select([interrupt], [], [], 0)[0]:
                self.interrupted = True
                return False
            if time.monotonic() >= until:
                break
            time.sleep(POLL)
        self.interrupted = False
        return bool(self.come)

    def _poll(self) -> bool:
        """Take completions; whether some are of messages that have come."""
        enums = self.enums
        _, found = self.completions.poll(len(self.receiver))
        for one in found:
            if one.status == enums.IBV_WC_WR_FLUSH_ERR:
                continue  # of a queue pair that has begun again
            if one.status != enums.IBV_WC_SUCCESS:
                raise VerbsError(f"roce=kernel: queue pair {one.qp_num} ended with status {one.status} (enum ibv_wc_status)")
            if one.opcode == enums.IBV_WC_RECV_RDMA_WITH_IMM:
                pair = self.by_number[one.qp_num]
                self.come.append((pair, socket.ntohl(one.imm_data), 0, one.byte_len, 0, 0))
                self.queue_pairs[pair].post_recv(self._awaited())
        return bool(self.come)

    def receive(self) -> Datagrams:
        self._poll()
        now, self.come = self.come[: len(self.receiver)], self.come[len(self.receiver) :]
        works = self.receiver.data["work"]
        works[: len(now)] = np.array(now, works.dtype)
        return self.receiver.first(len(now), np.full(len(now), works.dtype.itemsize, np.uint32))

    def drive(self, core: Any, until: float, interrupt: int = NEVER) -> bool:
        return False

    def close(self) -> None:
        for one in (*self.queue_pairs, self.landing, self.packets, self.completions, self.domain, self.context):
            one.close()


class VerbsDriver(SocketDriver):
    """Real time, and the kernel's RDMA for messages; `machine` is a descriptor of the machine's network namespace."""

    def __init__(self, core: Messages, machine: int) -> None:
        self.core = core
        (own, _), (other, _) = core.ends
        self.device = KernelDevice(own, other, machine)

    def datagrams(self, local: Address, peers: list[Address], sender: Datagrams, receive_rows: int, *_: Any) -> VerbsEndpoint:  # type: ignore[override]
        return VerbsEndpoint(self.device, self.core, receive_rows)
