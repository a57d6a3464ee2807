// The packets of the labs that add vectors: headers, parser, deparser, and the parts of a program that have nothing to do.
// It is given. A program that includes it defines `struct metadata_t` before.

const bit<16> TYPE_AGGREGATION = 0x88B6;
const bit<8> UPDATE = 1;  // a worker's vector, to be added
const bit<8> RESULT = 2;  // the sum
const bit<48> SWITCH = 0x0200000000fe;
const bit<48> EVERYBODY = 0xffffffffffff;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header aggregation_t {
    bit<8>  kind;
    bit<8>  worker;   // 0 to n - 1
    bit<8>  version;  // from lab 5 on
    bit<8>  job;      // from lab 8 on
    bit<16> slot;     // from lab 4 on
    bit<32> chunk;    // from lab 4 on
}

header values_t {
    bit<32> v0;  bit<32> v1;  bit<32> v2;  bit<32> v3;  bit<32> v4;  bit<32> v5;  bit<32> v6;  bit<32> v7;
    bit<32> v8;  bit<32> v9;  bit<32> v10; bit<32> v11; bit<32> v12; bit<32> v13; bit<32> v14; bit<32> v15;
}

struct headers_t {
    ethernet_t    ethernet;
    aggregation_t aggregation;
    values_t      values;
}

parser AggregationParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            TYPE_AGGREGATION: aggregation;
            default: accept;
        }
    }

    state aggregation {
        packet.extract(hdr.aggregation);
        packet.extract(hdr.values);
        transition accept;
    }
}

control AggregationDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.aggregation);
        packet.emit(hdr.values);
    }
}

control NoVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control NoComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control NoEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}
