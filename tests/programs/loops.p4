// Parsers that loop: without end, in a sub-parser, for as many bytes as the packet has, and by a count.
#define PROBE_FIELDS bit<8> op; bit<16> count; bit<8> parse_error;
#define EXTRA_TYPES header byte_t { bit<8> v; }
#define EXTRA_HEADERS byte_t last;
#define METADATA_FIELDS bit<16> left;
#define OWN_PARSER
#include "frame.p4"
parser Spin(packet_in packet, in bit<8> op) {
    state start { transition select(op) { 2: start; default: accept; } }
}
parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    Spin() spin;
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.probe);
        meta.left = hdr.probe.count;
        transition select(hdr.probe.op) { 1: for_ever; 2: inner; 3: bytes; 4: counted; 5: nested; default: accept; }
    }
    state for_ever { transition select(hdr.probe.op) { 1: back; default: accept; } }
    state back { transition for_ever; }
    state inner { spin.apply(packet, hdr.probe.op); transition accept; }
    state bytes { packet.extract(hdr.last); transition select(hdr.last.v) { 0xff: accept; default: bytes; } }
    state counted { meta.left = meta.left - 1; transition select(meta.left) { 0: accept; default: counted; } }
    state nested { spin.apply(packet, 1); transition nested; }
}
NO_EGRESS
control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
        if (standard.parser_error == error.ParserTimeout) { hdr.probe.parse_error = 1; }
        if (standard.parser_error == error.PacketTooShort) { hdr.probe.parse_error = 2; }
    }
}
PACKAGE
