// Registers of every kind of width, signed ones too: what is written is read again, cut to the width, after others were written.
#define PROBE_FIELDS bit<8> op; bit<8> cell; bit<64> value; bit<64> got; bit<8> less;
#include "frame.p4"
#define EACH(do) do(1) do(7) do(8) do(9) do(16) do(31) do(32) do(33) do(48) do(63) do(64)
control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
#define REGISTER(w) register<bit<w>>(4) r##w;
    EACH(REGISTER)
    register<int<8>>(4) s8;
    register<int<33>>(4) s33;
    register<bit<8>>(1) last;
    apply {
        bit<32> cell = (bit<32>)hdr.probe.cell;
        standard.egress_spec = 1;
        last.read(hdr.probe.less, 0);
        last.write(0, hdr.probe.op);
#define ACCESS(w) if (hdr.probe.op == w) { bit<w> v; r##w.read(v, cell); hdr.probe.got = (bit<64>)v; r##w.write(cell, (bit<w>)hdr.probe.value); }
        EACH(ACCESS)
        if (hdr.probe.op == 108) { int<8> v; s8.read(v, cell); hdr.probe.got = (bit<64>)(bit<8>)v; s8.write(cell, (int<8>)(bit<8>)hdr.probe.value); }
        if (hdr.probe.op == 133) { int<33> v; s33.read(v, cell); hdr.probe.got = (bit<64>)(bit<33>)v; s33.write(cell, (int<33>)(bit<33>)hdr.probe.value); }
    }
}
NO_EGRESS
PACKAGE
