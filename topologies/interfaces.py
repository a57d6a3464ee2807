"""A node's interfaces, configured by calls of netdevice(7) and rtnetlink(7).

Mininet starts a program for every step of it; these were half of all programs that a network started.
"""

from __future__ import annotations

import ctypes
import fcntl
import ipaddress
import os
import socket
import struct

from mininet.link import Intf

from inalab.topologies import isolation
from inalab.topologies.errors import NetworkError

SIOCGIFFLAGS, SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK, SIOCSIFHWADDR = 0x8913, 0x8914, 0x8916, 0x891C, 0x8924
SIOCETHTOOL = 0x8946
IFF_UP = 1
RTM_NEWLINK, NLM_F_REQUEST, NLM_F_ACK, IFLA_GSO_MAX_SEGS = 16, 1, 4, 40  # of <linux/rtnetlink.h> and <linux/if_link.h>
ARPHRD_ETHER = 1
# what linux/ethtool.h calls ETHTOOL_SRXCSUM, ETHTOOL_STXCSUM, ETHTOOL_STSO, ...
OFFLOADS = {"rx": 0x15, "tx": 0x17, "tso": 0x1F, "gso": 0x24, "gro": 0x2C}


class Interface(Intf):
    """Mininet's interface, which needs no `ifconfig` for what Mininet asks of it. NetworkError if the kernel refuses."""

    def ifconfig(self, *words: str) -> str:
        """`up`, `down`, `hw ether MAC` and `ADDRESS/PREFIX up`; the program is asked for the rest, and what it prints returned."""
        match words:
            case ("up",) | ("down",):
                (flags,) = struct.unpack_from("=H", self._ask(SIOCGIFFLAGS))
                self._ask(SIOCSIFFLAGS, struct.pack("=H", flags | IFF_UP if words == ("up",) else flags & ~IFF_UP))
            case ("hw", "ether", mac):
                self._ask(SIOCSIFHWADDR, struct.pack("=H6s", ARPHRD_ETHER, bytes.fromhex(mac.replace(":", ""))))
            case (address, "up"):
                given = ipaddress.IPv4Interface(address)
                for request, part in ((SIOCSIFADDR, given.ip), (SIOCSIFNETMASK, given.netmask)):
                    self._ask(request, struct.pack("=HH4s", socket.AF_INET, 0, part.packed))
                self.ifconfig("up")
            case _:
                return str(super().ifconfig(*words))
        return ""

    def turn_off(self, *offloads: str) -> None:
        """Have the kernel do what it might leave to a device, whose packets would be unlike those of a wire."""
        for offload in offloads:
            value = ctypes.create_string_buffer(struct.pack("=II", OFFLOADS[offload], 0))
            self._ask(SIOCETHTOOL, struct.pack("@P", ctypes.addressof(value)))

    def send_segments_singly(self) -> None:
        """Have TCP hand over one segment at a time.

        Without this it hands over up to 64 KB at once, whatever `gso` is. The kernel cuts that into segments behind the queueing
        discipline, which lets all of it pass as soon as one packet may: a burst would be ahead of what a link of this rate can do.
        """
        with isolation.in_network(self.node.pid), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
            try:
                link = struct.pack("=BxHiII", socket.AF_UNSPEC, 0, socket.if_nametoindex(self.name), 0, 0)
                link += struct.pack("=HHI", 8, IFLA_GSO_MAX_SEGS, 1)
                kernel.send(struct.pack("=IHHII", 16 + len(link), RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK, 1, 0) + link)
                (code,) = struct.unpack_from("=i", kernel.recv(1024), 16)
                if code:
                    raise OSError(-code, os.strerror(-code))
            except OSError as error:
                raise NetworkError(f"{self.node.name}: interface {self.name} cannot be configured: {error}") from None

    def _ask(self, request: int, given: bytes = b"") -> bytes:
        """A request of an `ifreq`: what follows the name in it, before and after."""
        with isolation.in_network(self.node.pid), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as kernel:
            try:
                return fcntl.ioctl(kernel, request, struct.pack("=16s24s", self.name.encode(), given))[16:]
            except OSError as error:
                raise NetworkError(f"{self.node.name}: interface {self.name} cannot be configured: {error.strerror}") from None
