"""SwitchML's worker over RoCE (rdma.c): what it writes to the switch, and what the switch writes to its memory."""

from __future__ import annotations

from typing import Any

from inalab.hosts.collective import Membership, Operation
from inalab.hosts.cores import enum, ffi, library
from inalab.hosts.drivers.driver import Address
from inalab.hosts.roce import wire as roce
from inalab.hosts.stream.datagrams import Datagrams
from inalab.hosts.switchml import wire
from inalab.hosts.switchml.worker import HOW, SwitchML

BLOCKS = enum("switchml_sizes")["SWITCHML_BLOCKS"]
LONGEST_SHORT = wire.CONNECT.itemsize  # bytes of a message that has no vector


class SwitchMLRdma(SwitchML):
    """All-reduce by the switches of the network, by RDMA.

    A chunk is a message of `message` packets of k integers each, with an exponent for each quarter of it, or for each packet
    where it has fewer than four. `pairs` are the queue pairs, each with a message under way. `ends` are this worker's own end
    and the switch's. Without `own_packets` an interface of the kernel's makes the packets (hosts.drivers.verbs).
    """

    unnumbered = True

    def __init__(
        self, membership: Membership, epoch: int, pairs: int, message: int, k: int, ends: tuple[Address, Address],
        patience: float = 30.0, scaling: float | None = None, own_packets: bool = True,
    ) -> None:  # fmt: skip
        self.ends, self.message, self.own_packets = ends, message, own_packets
        self.packet_k, self.payload = k, 4 * k
        super().__init__(membership, epoch, pairs, message * k, patience, scaling, "paper")
        self.operations = (Operation.SUM,)

    def _made(self, slots: int, k: int, recovery: str) -> Any:
        self.messages = Datagrams(2 * slots, wire.message(k, min(self.message, BLOCKS)))
        rows = slots * (1 + 2 * self.message)
        record, longest = (roce.packet, self.payload) if self.own_packets else (roce.work, 4 * k)
        self.sender = Datagrams(rows, record(max(longest, LONGEST_SHORT)))
        self.window, self.together = slots * self.message, 1
        bytes_of_message = wire.packet(k).itemsize
        core = library().rdma_new(
            slots, self.message, self.packet_k, HOW[recovery], self.messages.c, bytes_of_message, self.sender.c
        )
        self.rdma = ffi.gc(core, library().rdma_free)
        return ffi.addressof(self.rdma, "switchml")

    def _join(self, *of_group: Any) -> None:
        super()._join(*of_group)
        addresses = (roce.address(ip) for ip, _ in self.ends)
        library().rdma_join(self.rdma, *addresses, *(port for _, port in self.ends))

    def _receive(self, packets: Any, now: float) -> bool:
        return bool(library().rdma_received(self.rdma, packets, now))

    @property
    def remotes(self) -> list[int]:
        """See hosts.drivers.verbs.Messages, as what follows."""
        return [int(self.rdma.endpoint.pairs[pair].remote) for pair in range(self.count)]

    @property
    def landing(self) -> tuple[int, int]:
        return int(ffi.cast("uintptr_t", self.rdma.landing)), int(library().rdma_landing_bytes(self.rdma))

    def use_interface(self, numbers: list[int], key: int) -> None:
        self.numbers = ffi.new("uint32_t[]", numbers)
        library().rdma_use_interface(self.rdma, self.numbers, key)

    @property
    def dropped(self) -> dict[str, int]:
        """Packets that were dropped, by reason."""
        return {name: int(getattr(self.rdma.endpoint.dropped, name)) for name, _ in ffi.typeof("RoceDropped").fields}
