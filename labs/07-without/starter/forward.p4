// A switch between the hosts: host n is at port n + 1. (Given, for `inalab p4run`.)
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<40> prefix;
    bit<8>  host;
    bit<64> rest;
}

struct headers_t {
    ethernet_t ethernet;
}

struct metadata_t {}

parser ForwardParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control ForwardVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control ForwardIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = (bit<9>)hdr.ethernet.host + 1;
    }
}

control ForwardEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}

control ForwardComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control ForwardDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
    }
}

V1Switch(ForwardParser(), ForwardVerifyChecksum(), ForwardIngress(), ForwardEgress(), ForwardComputeChecksum(), ForwardDeparser()) main;
