// Lab 1: a switch that forwards IPv4 packets. You write what is marked TODO.
#include <core.p4>
#include <v1model.p4>

const bit<16> TYPE_IPV4 = 0x0800;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  tos;
    bit<16> len;
    bit<16> id;
    bit<3>  flags;
    bit<13> frag;
    bit<8>  ttl;
    bit<8>  proto;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
}

struct metadata_t {}

parser ForwardParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        // TODO 1: go on with IPv4 where hdr.ethernet.type says so
        transition accept;
    }
}

control ForwardVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control ForwardIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action drop() {
        mark_to_drop(standard);
    }

    // The control plane calls this for a route: which port, and the address of the next hop
    action forward(bit<9> port, bit<48> next_hop) {
        // TODO 2: send the packet to the port
        // TODO 3: new Ethernet addresses: this switch's become the source, the next hop's the destination
        // TODO 4: one hop less to live
    }

    // TODO 5: a table `routes` over the packet's IPv4 destination, longest prefix first (lpm), with the actions forward
    // and drop; what has no route is dropped

    apply {
        // TODO 6: IPv4 packets that may live longer look up a route; all others are dropped
    }
}

control ForwardEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}

control ForwardComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        // TODO 7: the header has changed, and so has its checksum
    }
}

control ForwardDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        // TODO 8: the IPv4 header, too
    }
}

V1Switch(ForwardParser(), ForwardVerifyChecksum(), ForwardIngress(), ForwardEgress(), ForwardComputeChecksum(),
         ForwardDeparser()) main;
