// Meters, digests, value sets, custom hashes, wide registers, entries that age or are the program's own, unions and loops.
#define PROBE_FIELDS bit<8> op; bit<8> cell; bit<128> wide; bit<16> seen;
#define EXTRA_TYPES header one_t { bit<8> v; bool flag; bit<7> rest; } header two_t { bit<8> n; varbit<64> v; } \
    header_union either_t { one_t one; two_t two; }
#define EXTRA_HEADERS either_t[2] either;
#define OWN_PARSER
#include "frame.p4"
struct learnt_t { bit<128> wide; bit<8> cell; }
struct pair_t { bit<8> op; bit<8> cell; }
parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    value_set<bit<8>>(3) ops;
    value_set<pair_t>(2) pairs;
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.probe);
        transition select(hdr.probe.op, hdr.probe.cell) { pairs: two; (ops, _): one; default: accept; }
    }
    state one {
        packet.extract(hdr.either.next.one);
        transition select(packet.lookahead<pair_t>().op) { 1: one; 2: two; default: accept; }
    }
    state two {
        packet.extract(hdr.either.next.two, (bit<32>)packet.lookahead<bit<8>>() * 8);
        transition accept;
    }
}
control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    meter(3, MeterType.bytes) array;
    direct_meter<bit<16>>(MeterType.packets) direct;
    direct_counter(CounterType.packets_and_bytes) counted;
    register<bit<128>>(4) wide;
    register<int<100>>(2) odd;
    action tag(bit<100> data, bit<8> small) { direct.read(hdr.probe.seen); hdr.probe.wide = (bit<128>)data + (bit<128>)small; }
    table metered {
        key = { hdr.probe.op : exact; }
        actions = { tag; NoAction; }
        meters = direct;
        support_timeout = true;
    }
    table own {
        key = { hdr.probe.wide : ternary; hdr.probe.cell : range; }
        actions = { tag; NoAction; }
        counters = counted;
        const entries = { (1, 0 .. 9) : tag(5, 6); (0x10 &&& 0x10, _) : NoAction(); }
    }
    apply {
        standard.egress_spec = 1;
        array.execute_meter((bit<32>)hdr.probe.cell, hdr.probe.seen);
        metered.apply();
        own.apply();
        bit<128> sum = 0;
        for (bit<8> i in 0 .. hdr.probe.cell) {
            if (i == 9) { break; }
            bit<128> cell;
            wide.read(cell, (bit<32>)i);
            sum += cell;
        }
        wide.write((bit<32>)hdr.probe.cell, sum ^ hdr.probe.wide);
        odd.write(0, (int<100>)(bit<100>)sum);
        if (hdr.probe.op == 7) { digest<learnt_t>(1, { hdr.probe.wide, hdr.probe.cell }); }
        if (hdr.probe.op == 8) {
            hash(hdr.probe.seen, HashAlgorithm.crc16_custom, 16w0, { hdr.either[0].one, hdr.either[1].two.v, hdr.probe.cell }, 32w65536);
        }
        if (hdr.probe.op == 9) { hash(hdr.probe.seen, HashAlgorithm.crc32_custom, 16w0, { hdr.either[0].one.v, sum }, 32w65536); }
        for (either_t one in hdr.either) { if (one.isValid()) { hdr.probe.seen += 1; } }
        if (hdr.probe.op == 10) { hdr.either.push_front(1); hdr.either[0].one = { 1, true, 2 }; }
    }
}
NO_EGRESS
PACKAGE
