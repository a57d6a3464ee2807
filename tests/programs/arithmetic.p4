// Unsigned and signed operators at several widths, casts, slices, concatenation.
#define PROBE_FIELDS bit<64> a; bit<64> b; bit<64> sums; bit<64> products; bit<64> saturated; bit<64> shifts; bit<64> signs; \
    bit<64> slices; bit<64> wide; bit<64> odd; bit<64> signed_shifts; bit<64> logic; bit<128> big; bit<64> compared;
#include "frame.p4"
NO_EGRESS
control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        bit<8> a8 = hdr.probe.a[7:0];   bit<8> b8 = hdr.probe.b[7:0];
        bit<13> a13 = hdr.probe.a[20:8]; bit<13> b13 = hdr.probe.b[20:8];
        bit<16> a16 = hdr.probe.a[15:0]; bit<16> b16 = hdr.probe.b[15:0];
        bit<32> a32 = hdr.probe.a[31:0]; bit<32> b32 = hdr.probe.b[31:0];
        int<8> s8 = (int<8>)a8; int<8> t8 = (int<8>)b8;
        int<13> s13 = (int<13>)a13; int<13> t13 = (int<13>)b13;
        int<32> s32 = (int<32>)a32; int<32> t32 = (int<32>)b32;
        hdr.probe.sums = (a8 + b8) ++ (a16 - b16) ++ (a32 + b32) ++ (b8 - a8);
        hdr.probe.products = (bit<64>)((a16 * b16) ++ (a13 * b13)) ^ (hdr.probe.a * hdr.probe.b);
        hdr.probe.saturated = (a8 |+| b8) ++ (a8 |-| b8) ++ (a16 |+| b16) ++ (bit<8>)(s8 |+| t8) ++ (bit<8>)(s8 |-| t8) ++ (bit<16>)(bit<13>)(s13 |+| t13);
        hdr.probe.shifts = (a8 << 3) ++ (a8 >> 9) ++ (a16 << b8) ++ (a32 >> b8);
        hdr.probe.signs = (bit<64>)(bit<32>)(int<32>)s8 << 32 | (bit<64>)(bit<32>)(int<32>)s13;
        hdr.probe.slices = hdr.probe.a;
        hdr.probe.slices[39:24] = b16;
        hdr.probe.slices[3:3] = b8[5:5];
        hdr.probe.wide = hdr.probe.a - hdr.probe.b;
        hdr.probe.odd = (bit<64>)(a13 + b13) << 40 | (bit<64>)(a13 - b13) << 20 | (bit<64>)(~a13);
        hdr.probe.signed_shifts = (bit<8>)(s8 >> 2) ++ (bit<8>)(s8 << 1) ++ (bit<32>)(s32 >> b8[4:0]) ++ (bit<16>)(int<16>)(s13 - t13);
        hdr.probe.logic = (hdr.probe.a & hdr.probe.b) ^ (hdr.probe.a | ~hdr.probe.b) ^ (bit<64>)(-a16);
        hdr.probe.big = (bit<128>)hdr.probe.a;
        bit<8> c = 0;
        if (a8 < b8) c = c | 1;
        if (s8 < t8) c = c | 2;
        if (s13 >= t13) c = c | 4;
        if (s32 > t32) c = c | 8;
        if (hdr.probe.a <= hdr.probe.b) c = c | 16;
        if (hdr.probe.big == (bit<128>)hdr.probe.b) c = c | 32;
        if (!(a16 == b16) && (a8 != 0 || b8 == 7)) c = c | 64;
        hdr.probe.compared = (bit<64>)(a8 > 127 ? c : c | 128) + (s13 < 0 ? 64w256 : 512);
        standard.egress_spec = 1;
    }
}
PACKAGE
