// Hash algorithms, checksums verified and computed, registers, counters, sub-controls with state of their own, functions.
#define PROBE_FIELDS bit<32> a; bit<16> b; bit<8> c; bit<8> op; bit<32> crc32; bit<16> crc16; bit<16> csum; bit<16> xored; \
    bit<64> same; bit<16> within; bit<16> checksum; bit<8> bad; bit<32> sum_one; bit<32> sum_two; bit<8> called;
#define OWN_CHECKSUMS
#include "frame.p4"
control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { verify_checksum(hdr.probe.op == 1, { hdr.probe.a, hdr.probe.b, hdr.probe.c, hdr.probe.op }, hdr.probe.checksum, HashAlgorithm.csum16); }
}
control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply { update_checksum(hdr.probe.op != 2, { hdr.probe.a, hdr.probe.b, hdr.probe.c, hdr.probe.op }, hdr.probe.checksum, HashAlgorithm.csum16); }
}
bit<8> twice(in bit<8> x) { if (x > 100) { return 0; } return x + x; }
control Sum(in bit<32> much, out bit<32> total)(bit<32> start) {
    register<bit<32>>(4) held;
    apply { bit<32> v; held.read(v, 1); v = v + much + start; held.write(1, v); total = v; }
}
NO_EGRESS
control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    Sum(0) one;
    Sum(1000) two;
    counter(4, CounterType.packets_and_bytes) seen;
    apply {
        standard.egress_spec = 1;
        hash(hdr.probe.crc32, HashAlgorithm.crc32, 32w0, { hdr.probe.a, hdr.probe.b, hdr.probe.c }, 64w0x100000000);
        hash(hdr.probe.crc16, HashAlgorithm.crc16, 16w0, { hdr.probe.a, hdr.probe.b }, 32w0x10000);
        hash(hdr.probe.csum, HashAlgorithm.csum16, 16w0, { hdr.probe.a, hdr.probe.b, hdr.probe.c }, 32w0x10000);
        hash(hdr.probe.xored, HashAlgorithm.xor16, 16w0, { hdr.probe.a, hdr.probe.b }, 32w0x10000);
        hash(hdr.probe.same, HashAlgorithm.identity, 64w0, { hdr.probe.b, hdr.probe.c }, 64w0x1000000000000);
        hash(hdr.probe.within, HashAlgorithm.crc32, 16w100, { hdr.probe.a[11:0], hdr.probe.c[3:0] }, 16w7);
        hdr.probe.bad = (bit<8>)standard.checksum_error;
        one.apply(hdr.probe.a, hdr.probe.sum_one);
        two.apply(hdr.probe.a, hdr.probe.sum_two);
        hdr.probe.called = twice(hdr.probe.c);
        seen.count((bit<32>)hdr.probe.op);
    }
}
PACKAGE
