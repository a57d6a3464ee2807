// Lab 2: a switch that remembers: counts of flows, and which number comes next in each. You write what is marked TODO.
#include <core.p4>
#include <v1model.p4>

const bit<16> TYPE_PROBE = 0x88B5;
const bit<8> COUNT = 1;   // count this packet in its flow; the answer's value is the new count
const bit<8> READ = 2;    // the answer's value is the count
const bit<8> NUMBER = 3;  // the packet has a number; the answer's value is how many before it are missing
const bit<32> LATE = 0xffffffff;
const bit<32> FLOWS = 256;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header probe_t {
    bit<8>  operation;
    bit<8>  flow;
    bit<16> number;
    bit<32> value;
}

struct headers_t {
    ethernet_t ethernet;
    probe_t    probe;
}

struct metadata_t {}

parser StateParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            TYPE_PROBE: probe;
            default: accept;
        }
    }

    state probe {
        packet.extract(hdr.probe);
        transition accept;
    }
}

control StateVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control StateIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    // TODO 1: a counter `arrived` of packets and bytes, with a cell for each of 8 ports
    // TODO 2: a register `counts` of 32 bits, with a cell for each flow
    // TODO 4: a register `expected` of 16 bits, with a cell for each flow: the number that comes next

    // A probe goes back to where it came from
    action answer(bit<32> value) {
        bit<48> station = hdr.ethernet.dst;
        hdr.ethernet.dst = hdr.ethernet.src;
        hdr.ethernet.src = station;
        hdr.probe.value = value;
        standard.egress_spec = standard.ingress_port;
    }

    apply {
        // TODO 1: count the packet at its port
        if (!hdr.probe.isValid()) {
            mark_to_drop(standard);
        } else if (hdr.probe.operation == COUNT) {
            // TODO 2: one more in its flow, and the new count as the answer
        } else if (hdr.probe.operation == READ) {
            // TODO 3: the count as the answer
        } else if (hdr.probe.operation == NUMBER) {
            // TODO 5: how many numbers before this one have not come? It is the next that is expected after this one
            // TODO 6: a number that comes late (the difference is 0x8000 or more) is answered with LATE, and changes nothing
        } else {
            mark_to_drop(standard);
        }
    }
}

control StateEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}

control StateComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control StateDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.probe);
    }
}

V1Switch(StateParser(), StateVerifyChecksum(), StateIngress(), StateEgress(), StateComputeChecksum(), StateDeparser()) main;
