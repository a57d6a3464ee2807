// Header stacks: next, last, lookahead, push and pop, indices; varbit; a parser loop.
#define PROBE_FIELDS bit<8> op; bit<8> first; bit<8> last; bit<8> size;
#define EXTRA_TYPES header label_t { bit<7> value; bit<1> bottom; } header options_t { bit<8> length; varbit<64> data; }
#define EXTRA_HEADERS label_t[3] labels; options_t options;
#define OWN_PARSER
#include "frame.p4"
parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.probe);
        transition select(hdr.probe.op) { 0 .. 9: labels; 20: options; default: accept; }
    }
    state labels {
        packet.extract(hdr.labels.next);
        transition select(hdr.labels.last.bottom) { 1: peek; default: labels; }
    }
    state peek {
        transition select(packet.lookahead<bit<8>>()) { 0xee: accept; 0xef: skip; default: accept; }
    }
    state skip { packet.advance(8); transition accept; }
    state options {
        hdr.probe.size = packet.lookahead<bit<16>>()[7:0];
        packet.extract(hdr.options, (bit<32>)packet.lookahead<bit<8>>() * 8);
        transition accept;
    }
}
NO_EGRESS
control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
        if (hdr.labels[0].isValid()) { hdr.probe.first = (bit<8>)hdr.labels[0].value; }
        if (hdr.probe.op == 1) { hdr.labels.push_front(1); hdr.labels[0].setValid(); hdr.labels[0].value = 99; hdr.labels[0].bottom = 0; }
        if (hdr.probe.op == 2) { hdr.labels.pop_front(1); }
        if (hdr.probe.op == 3) { hdr.labels.push_front(2); }
        if (hdr.probe.op == 4) { hdr.labels[1].setInvalid(); }
        if (hdr.probe.op == 5) { hdr.labels[2] = hdr.labels[0]; hdr.labels[2].value = 1; }
        if (standard.parser_error == error.StackOutOfBounds) { hdr.probe.last = 0xf0; }
        if (standard.parser_error == error.PacketTooShort) { hdr.probe.last = 0xf1; }
        if (standard.parser_error == error.HeaderTooShort) { hdr.probe.last = 0xf2; }
        if (hdr.options.isValid()) { hdr.probe.last = hdr.options.length; }
    }
}
PACKAGE
