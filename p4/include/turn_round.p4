// A datagram that came to this switch's address goes back to its sender, from that address.
// A program includes this behind its headers_t.
#ifndef TURN_ROUND_P4
#define TURN_ROUND_P4
#include "network.p4"

control TurnRound(inout headers_t hdr) {
    apply {
        mac_t mac = hdr.ethernet.dst;
        ip4_t ip = hdr.ipv4.dst;
        udp_port_t port = hdr.udp.dst;
        hdr.ethernet.dst = hdr.ethernet.src;
        hdr.ethernet.src = mac;
        hdr.ipv4.dst = hdr.ipv4.src;
        hdr.ipv4.src = ip;
        hdr.ipv4.ttl = 64;
        hdr.udp.dst = hdr.udp.src;
        hdr.udp.src = port;
        hdr.udp.checksum = 0;
    }
}

#endif
