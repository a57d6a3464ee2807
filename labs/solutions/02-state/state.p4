// Lab 2: a switch that remembers: counts of flows, and which number comes next in each.
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
    counter(8, CounterType.packets_and_bytes) arrived;
    register<bit<32>>(FLOWS) counts;
    register<bit<16>>(FLOWS) expected;

    // A probe goes back to where it came from
    action answer(bit<32> value) {
        bit<48> station = hdr.ethernet.dst;
        hdr.ethernet.dst = hdr.ethernet.src;
        hdr.ethernet.src = station;
        hdr.probe.value = value;
        standard.egress_spec = standard.ingress_port;
    }

    apply {
        arrived.count((bit<32>)standard.ingress_port);
        bit<32> flow = (bit<32>)hdr.probe.flow;
        bit<32> n;
        counts.read(n, flow);
        if (!hdr.probe.isValid()) {
            mark_to_drop(standard);
        } else if (hdr.probe.operation == COUNT) {
            counts.write(flow, n + 1);
            answer(n + 1);
        } else if (hdr.probe.operation == READ) {
            answer(n);
        } else if (hdr.probe.operation == NUMBER) {
            bit<16> next;
            expected.read(next, flow);
            bit<16> missing = hdr.probe.number - next;
            if (missing < 0x8000) {
                expected.write(flow, hdr.probe.number + 1);
                answer((bit<32>)missing);
            } else {
                answer(LATE);
            }
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
