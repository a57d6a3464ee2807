// exit and return, nested conditions, actions with directions, parser errors by verify and by a select without a match.
error { BadOp }
#define PROBE_FIELDS bit<8> op; bit<8> x; bit<8> y; bit<8> trace; bit<8> parse_error; bit<16> length;
#define OWN_PARSER
#include "frame.p4"
parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start { packet.extract(hdr.ethernet); transition select(hdr.ethernet.kind) { 0x1234: probe; 0x1200 &&& 0xff00: accept; 0x9999: accept; } }
    state probe { packet.extract(hdr.probe); verify(hdr.probe.op != 200, error.BadOp); transition accept; }
}
control Inner(inout bit<8> trace, in bit<8> op) {
    action leave() { exit; }
    table stop { key = { op : exact; } actions = { leave; NoAction; } const default_action = NoAction(); const entries = { 3: leave(); } }
    apply { trace = trace | 1; stop.apply(); trace = trace | 2; if (op == 4) { return; } trace = trace | 4; }
}
control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    Inner() inner;
    action swap(inout bit<8> a, inout bit<8> b, out bit<8> sum) { bit<8> t = a; a = b; b = t; sum = a - b; }
    apply {
        standard.egress_spec = 1;
        if (!hdr.probe.isValid()) {
            standard.egress_spec = 2;
            if (standard.parser_error == error.NoMatch) { hdr.ethernet.src = 1; }
            if (standard.parser_error == error.PacketTooShort) { hdr.ethernet.src = 2; }
            if (standard.parser_error == error.NoError) { hdr.ethernet.src = 3; }
            return;
        }
        if (standard.parser_error == error.BadOp) { hdr.probe.parse_error = 77; }
        hdr.probe.length = standard.packet_length[15:0];
        if (hdr.probe.op == 1) { swap(hdr.probe.x, hdr.probe.y, hdr.probe.trace); }
        else if (hdr.probe.op >= 2) { inner.apply(hdr.probe.trace, hdr.probe.op); hdr.probe.trace = hdr.probe.trace | 8; }
        else { hdr.probe.setInvalid(); }
    }
}
control After(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { if (hdr.probe.isValid()) { hdr.probe.y = hdr.probe.y + 1; } }
}
PACKAGE
