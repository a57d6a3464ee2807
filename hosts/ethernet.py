"""What a datagram takes on an Ethernet link, in bytes and bits."""

from __future__ import annotations

ETHERNET_BYTES, IPV4_BYTES, UDP_BYTES = 14, 20, 8
PHYSICAL_BYTES = 24  # preamble 8, frame check sequence 4, gap between frames 12
UDP_OVERHEAD_BYTES = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES + PHYSICAL_BYTES


def bits_on_wire(payload: int) -> int:
    """Bits that a UDP datagram of so many bytes occupies on a link, preamble, FCS and gap included."""
    return 8 * (UDP_OVERHEAD_BYTES + payload)
