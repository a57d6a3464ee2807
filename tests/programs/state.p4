// Registers and counters that the control plane reads and writes: signed ones, odd widths, and two of one name.
#define PROBE_FIELDS bit<8> op; bit<8> cell; bit<8> negative; int<64> wide; bit<8> left; bit<8> right;
#include "frame.p4"
control Part(inout bit<8> value, in bit<32> cell) {
    register<bit<8>>(2) own;
    apply { own.read(value, cell); }
}
control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    counter(4, CounterType.packets_and_bytes) seen;
    counter(2, CounterType.packets) others;
    register<int<8>>(3) s8;
    register<int<33>>(3) s33;
    register<bit<12>>(5) u12;
    Part() a;
    Part() b;
    apply {
        bit<32> cell = (bit<32>)hdr.probe.cell;
        standard.egress_spec = 1;
        seen.count(cell);
        if (hdr.probe.op == 8) { int<8> v; s8.read(v, cell); hdr.probe.wide = (int<64>)v; if (v < 0) { hdr.probe.negative = 1; } }
        if (hdr.probe.op == 33) { int<33> v; s33.read(v, cell); hdr.probe.wide = (int<64>)v; if (v < 0) { hdr.probe.negative = 1; } }
        if (hdr.probe.op == 12) { bit<12> v; u12.read(v, cell); hdr.probe.wide = (int<64>)(bit<64>)v; others.count(cell); }
        if (hdr.probe.op == 1) { a.apply(hdr.probe.left, cell); b.apply(hdr.probe.right, cell); }
    }
}
NO_EGRESS
PACKAGE
