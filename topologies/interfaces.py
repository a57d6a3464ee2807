"""A node's interfaces, configured by calls of netdevice(7).

Mininet starts a program for every step of it; these were half of all programs that a network started.
"""

from __future__ import annotations

import ctypes
import fcntl
import ipaddress
import socket
import struct

from mininet.link import Intf

from inalab.topologies import isolation
from inalab.topologies.errors import NetworkError

SIOCGIFFLAGS, SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK, SIOCSIFHWADDR = 0x8913, 0x8914, 0x8916, 0x891C, 0x8924
SIOCETHTOOL = 0x8946
IFF_UP = 1
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

    def _ask(self, request: int, given: bytes = b"") -> bytes:
        """A request of an `ifreq`: what follows the name in it, before and after."""
        with isolation.in_network(self.node.pid), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as kernel:
            try:
                return fcntl.ioctl(kernel, request, struct.pack("=16s24s", self.name.encode(), given))[16:]
            except OSError as error:
                raise NetworkError(f"{self.node.name}: interface {self.name} cannot be configured: {error.strerror}") from None
