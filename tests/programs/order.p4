// Order of evaluation (P4_16, section 8.1 and 6.8): what a call changes, and what was read before it.
#define PROBE_FIELDS bit<8> op; bit<8> x; bit<8> y; bit<8> i;
#define EXTRA_TYPES header label_t { bit<8> v; }
#define EXTRA_HEADERS label_t[3] labels;
#define OWN_PARSER
#include "frame.p4"
parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.probe);
        packet.extract(hdr.labels.next);
        packet.extract(hdr.labels.next);
        packet.extract(hdr.labels.next);
        transition accept;
    }
}
NO_EGRESS
struct pair_t { bit<8> first; bit<8> second; }
bit<8> bump(inout bit<8> v) { v = v + 1; return v; }
bit<8> add(in bit<8> a, in bit<8> b) { return (a << 4) + b; }
void both(out bit<8> a, out bit<8> b) { a = 7; b = 2; }
void nibbles(inout bit<4> a, inout bit<4> b) { bit<4> t = a; a = b; b = t; }
void swap(inout bit<8> a, inout bit<8> b) { bit<8> t = a; a = b; b = t; }
control Add(in bit<8> a, inout bit<8> b, out bit<8> c) { apply { b = b + 1; c = a; } }
control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<8>>(8) cells;
    Add() adder;
    action set(out bit<8> a, out bit<8> b) { a = 1; b = 2; }
    action none() {}
    table by_op { key = { hdr.probe.op : exact; } actions = { none; NoAction; } const entries = { 20 : none(); 21 : none(); } }
    apply {
        standard.egress_spec = 1;
        if (hdr.probe.op == 1) { hdr.probe.y = hdr.probe.x + bump(hdr.probe.x); }
        else if (hdr.probe.op == 2) { hdr.probe.y = bump(hdr.probe.x) + hdr.probe.x; }
        else if (hdr.probe.op == 3) { hdr.labels[bump(hdr.probe.i)].v = 7; }
        else if (hdr.probe.op == 4) { hdr.labels[hdr.probe.i].v = bump(hdr.probe.i); }
        else if (hdr.probe.op == 5) { hdr.probe.y = add(hdr.probe.x, bump(hdr.probe.x)); }
        else if (hdr.probe.op == 6) { set(hdr.probe.x, hdr.probe.x); }
        else if (hdr.probe.op == 7) { both(hdr.labels[hdr.probe.i].v, hdr.probe.i); }
        else if (hdr.probe.op == 8) { swap(hdr.labels[hdr.probe.i].v, hdr.probe.i); }
        else if (hdr.probe.op == 9) { pair_t p = { hdr.probe.x, bump(hdr.probe.x) }; hdr.probe.y = add(p.first, p.second); }
        else if (hdr.probe.op == 10) { if (hdr.probe.x == bump(hdr.probe.x)) { hdr.probe.y = 1; } }
        else if (hdr.probe.op == 11) { hdr.probe.y = hdr.probe.i == 0 ? bump(hdr.probe.x) : 9; }
        else if (hdr.probe.op == 12) { cells.write((bit<32>)hdr.probe.x, bump(hdr.probe.x)); cells.read(hdr.probe.y, 3); }
        else if (hdr.probe.op == 13) { hdr.probe.x[3:0] = bump(hdr.probe.x)[3:0]; }
        else if (hdr.probe.op == 14) { adder.apply(hdr.probe.x, hdr.probe.x, hdr.probe.y); }
        else if (hdr.probe.op == 15) { adder.apply(hdr.probe.x, hdr.labels[bump(hdr.probe.i)].v, hdr.probe.y); }
        else if (hdr.probe.op == 16) { hdr.probe.y = hdr.labels[bump(hdr.probe.i)].v + hdr.labels[bump(hdr.probe.i)].v; }
        else if (hdr.probe.op == 17) { nibbles(hdr.probe.x[7:4], hdr.probe.x[3:0]); }
        else if (hdr.probe.op == 18) { if (hdr.probe.i == 1 && bump(hdr.probe.x) == 4) { hdr.probe.y = hdr.probe.x; } }
        else if (hdr.probe.op == 19) { hdr.labels[hdr.probe.i] = hdr.labels[bump(hdr.probe.i)]; }
        else if (hdr.probe.op >= 20) { bool h = by_op.apply().hit == (hdr.probe.op == 20); if (h) { hdr.probe.y = 1; } }
    }
}
PACKAGE
