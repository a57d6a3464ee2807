// The packets of the lab about shared switches: headers, parser, deparser, and the parts of a program that have nothing to do.
// It is given. A program that includes it defines `struct metadata_t` before.

const bit<16> TYPE_ATP = 0x88B8;
const bit<8> GRADIENT = 1;  // vectors of some workers, on their way to the server
const bit<8> RESULT = 2;    // the sum of all workers, from the server
const bit<48> EVERYBODY = 0xffffffffffff;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header atp_t {
    bit<8>  kind;
    bit<8>  job;
    bit<8>  bitmap;  // whose vectors are in the packet: bit w for worker w
    bit<8>  resend;  // 1 if a worker sends its vector again
    bit<16> index;   // of the aggregator that the packet asks for
    bit<32> chunk;
}

header values_t {
    bit<32> v0;  bit<32> v1;  bit<32> v2;  bit<32> v3;  bit<32> v4;  bit<32> v5;  bit<32> v6;  bit<32> v7;
    bit<32> v8;  bit<32> v9;  bit<32> v10; bit<32> v11; bit<32> v12; bit<32> v13; bit<32> v14; bit<32> v15;
}

struct headers_t {
    ethernet_t ethernet;
    atp_t      atp;
    values_t   values;
}

parser AtpParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            TYPE_ATP: atp;
            default: accept;
        }
    }

    state atp {
        packet.extract(hdr.atp);
        packet.extract(hdr.values);
        transition accept;
    }
}

control AtpDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.atp);
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
