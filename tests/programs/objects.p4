// Extern objects that controls and functions take: at apply(), as an argument, or made for a constructor. probe.op says what is
// done. Also lookahead of a struct with headers in it, a select without keys, and actions named like the externs that they call.
#define PROBE_FIELDS bit<8> op; bit<8> value; bit<8> before; bit<8> first; bit<8> second; bit<8> alone; bit<8> low; bit<16> hashed;
#define METADATA_FIELDS bit<8> first; bit<8> second; bit<8> alone; bit<8> low;
#define EXTRA_TYPES header small_t { bit<8> v; } struct ahead_t { small_t[2] both; small_t alone; bit<4> high; bit<4> low; }
#define EXTRA_HEADERS small_t copied;
#define OWN_PARSER
#include "frame.p4"
NO_EGRESS
parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    ahead_t ahead;
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.probe);
        transition select() { default: choose; }
    }
    state choose { transition select(hdr.probe.op) { 0: look; default: accept; } }
    state look {
        ahead = packet.lookahead<ahead_t>();
        meta.first = ahead.both[0].v;
        meta.second = ahead.both[1].v;
        meta.alone = ahead.alone.v;
        meta.low = (bit<8>)ahead.low;
        hdr.copied = ahead.both[1];
        transition accept;
    }
}
T exchanged<T>(register<T> kept, in T value) {
    T before;
    kept.read(before, 1);
    kept.write(1, value);
    return before;
}
bit<8> next(register<bit<8>> kept) {
    bit<8> value;
    kept.read(value, 0);
    kept.write(0, value + 1);
    return value;
}
bit<16> pair(in bit<8> high, in bit<8> low) { return high ++ low; }
control Add(inout headers_t hdr, register<bit<8>> kept, counter counted) {
    action add() {
        kept.read(hdr.probe.before, 0);
        kept.write(0, hdr.probe.before + hdr.probe.value);
        counted.count(0);
    }
    table adds { actions = { add; } default_action = add; }
    apply { adds.apply(); }
}
control Through(inout headers_t hdr, register<bit<8>> kept, counter counted) {
    Add() inner;
    apply { inner.apply(hdr, kept, counted); }
}
control Own(inout headers_t hdr)(register<bit<8>> kept) {
    apply { kept.read(hdr.probe.before, 0); kept.write(0, hdr.probe.value); }
}
control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<8>>(2) left;
    register<bit<8>>(2) right;
    register<bit<16>>(2) wide;
    counter(1, CounterType.packets) counted;
    Add() to_left;
    Through() to_right;
    Own(register<bit<8>>(1)) first_own;
    Own(register<bit<8>>(1)) second_own;
    action mark_to_drop() { mark_to_drop(standard); }
    action hash() { hash(hdr.probe.hashed, HashAlgorithm.crc16, 16w0, { hdr.probe.value }, 32w65536); }
    table drops { actions = { mark_to_drop; } default_action = mark_to_drop; }
    apply {
        standard.egress_spec = 1;
        hdr.probe.first = meta.first;
        hdr.probe.second = meta.second;
        hdr.probe.alone = meta.alone;
        hdr.probe.low = meta.low;
        if (hdr.probe.op == 1) { to_left.apply(hdr, left, counted); }
        if (hdr.probe.op == 2) { to_right.apply(hdr, right, counted); }
        if (hdr.probe.op == 3) { first_own.apply(hdr); }
        if (hdr.probe.op == 4) { second_own.apply(hdr); }
        if (hdr.probe.op == 5) { hdr.probe.before = exchanged(left, hdr.probe.value); }
        if (hdr.probe.op == 6) { hdr.probe.hashed = exchanged(wide, 8w1 ++ hdr.probe.value); }
        if (hdr.probe.op == 9) { hdr.probe.hashed = pair(next(left), next(left)); }
        if (hdr.probe.op == 7) { drops.apply(); }
        if (hdr.probe.op == 8) { hash(); log_msg("hashed {}", { hdr.probe }); }
    }
}
PACKAGE
