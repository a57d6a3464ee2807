// What is given by name, by default or not at all: parameters of actions, controls, constructors and the package; a register that a
// control is constructed from; keys of an enum; annotations of all kinds; entries marked const; an action with many parameters.
#define PROBE_FIELDS bit<8> op; bit<8> a; bit<32> b; bit<32> c;
#define EXTRA_TYPES header odd_t { bit<3> part; } enum Which { FIRST, SECOND, THIRD }
#include "frame.p4"
NO_EGRESS

@structured[1, "x", 2 + 3] @pairs[a = 1, b = "y"] @words("one" "two") @path(a.b.c) @empty("")
control Adds(inout bit<32> value, in bit<32> by = 7)(register<bit<32>> sums, bit<32> cell = 2) {
    apply {
        bit<32> before;
        sums.read(before, cell);
        value = before + by;
        sums.write(cell, value);
    }
}

control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<32>>(4) sums;
    Adds(sums) second;
    Adds(cell = 3, sums = sums) third;
    Which which = Which.FIRST;

    action set(in bit<32> value = 99) { hdr.probe.b = value; }
    action mark(bit<32> value) { hdr.probe.c = value; }
    action many(bit<64> p0, bit<64> p1, bit<64> p2, bit<64> p3, bit<64> p4, bit<64> p5, bit<64> p6, bit<64> p7, bit<64> p8,
                bit<64> p9, bit<64> pa, bit<64> pb, bit<64> pc, bit<64> pd, bit<64> pe, bit<64> pf, bit<64> pg, bit<32> ph) {
        hdr.probe.b = (bit<32>)pg;
        hdr.probe.c = ph;
    }
    table by_enum { key = { which : exact; } actions = { mark; NoAction; } default_action = NoAction(); }
    table by_op {
        key = { hdr.probe.op : exact; }
        actions = { mark; many; NoAction; }
        default_action = mark(55);
        entries = { const 2 : mark(22); 3 : mark(33); }
    }
    table wide { key = { hdr.probe.a : exact; } actions = { many; NoAction; } default_action = NoAction(); }

    apply {
        standard.egress_spec = 1;
        if (hdr.probe.a == 1) { which = Which.SECOND; }
        else if (hdr.probe.a == 2) { which = Which.THIRD; }
        if (hdr.probe.op == 0) { second.apply(hdr.probe.b); third.apply(by = hdr.probe.a ++ 24w1, value = hdr.probe.c); }
        else if (hdr.probe.op == 1) { set(); by_enum.apply(); }
        else if (hdr.probe.op == 4) { set(hdr.probe.c); wide.apply(); }
        else { by_op.apply(); }
    }
}
V1Switch(vr = Verify(), p = Parse(), ig = Work(), eg = After(), dep = Deparse(), ck = Compute()) main;
