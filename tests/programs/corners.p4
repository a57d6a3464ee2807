// Corners that a compiler to C gets wrong easily: validity and lengths, names that C has, side effects in conditions,
// exit within expressions, precedence of constant entries, fields called as keywords and functions are.
#define PROBE_FIELDS bit<8> op; bit<8> a; bit<8> b; bit<8> type; bit<8> state; bit<8> hash; bit<16> length; bit<128> big; bit<32> address;
#define EXTRA_TYPES header extra_t { bit<8> f; bit<16> g; } header count { bit<8> valid; bit<8> auto; }
#define EXTRA_HEADERS extra_t extra; extra_t second; count counted;
#include "frame.p4"
error { Mine }
control Direct(inout bit<8> x, out bit<4> nibble) { apply { x = x + 3; nibble = x[3:0]; } }
bool bump(inout bit<8> v) { v = v + 1; return v > 2; }
control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    counter(2, CounterType.packets_and_bytes) counted;
    action leave() { hdr.probe.b = 77; exit; }
    action compare(bit<128> x, bit<8> phv) { if (hdr.probe.big == x) { hdr.probe.a = 1; } if (x == 5) { hdr.probe.a = hdr.probe.a | 2; } hdr.probe.b = phv; }
    action put(bit<8> t1) { hdr.probe.b = t1; }
#define TABLE(name) table name { key = { hdr.probe.op : exact; } actions = { leave; compare; put; } size = 16; }
    TABLE(by_op6) TABLE(by_op7) TABLE(by_op8) TABLE(by_op9)
    table again { key = { hdr.probe.op : exact; } actions = { put; NoAction; } const default_action = NoAction(); const entries = { 8: put(88); } }
    table mixed {
        key = { hdr.probe.address : lpm; hdr.probe.a : ternary; }
        actions = { put; NoAction; }
        const default_action = NoAction();
        const entries = { (0x0a000000 &&& 0xff000000, _): put(1); (0x0a010000 &&& 0xffff0000, _): put(2); }
    }
    apply {
        standard.egress_spec = 1;
        bit<8> exited = 4;
        bit<8> int_ = 1;
        if (hdr.probe.op == 1) { hdr.extra.f = 5; hdr.extra.setValid(); hdr.extra.g = 7; }
        else if (hdr.probe.op == 2) { hdr.extra.setValid(); hdr.extra.f = 9; hdr.extra.setInvalid(); hdr.extra.setValid(); }
        else if (hdr.probe.op == 3) { standard.packet_length = 5; hdr.extra = { 1, 2 }; }
        else if (hdr.probe.op == 4) { if (hdr.probe.a == 1 && bump(hdr.probe.b)) { hdr.probe.type = 1; } }
        else if (hdr.probe.op == 5) { if (hdr.probe.a == 1 || bump(hdr.probe.b)) { hdr.probe.type = 1; } }
        else if (hdr.probe.op == 6) { by_op6.apply(); hdr.probe.a = exited + int_; }
        else if (hdr.probe.op == 7) { bool h = by_op7.apply().hit; hdr.probe.type = 1; if (h) { hdr.probe.type = 2; } }
        else if (hdr.probe.op == 8) { if (by_op8.apply().hit && again.apply().hit) { hdr.probe.type = 3; } }
        else if (hdr.probe.op == 9) { by_op9.apply(); }
        else if (hdr.probe.op == 10) { mixed.apply(); }
        else if (hdr.probe.op == 11) { hdr.probe.type = hdr.probe.a; if (hdr.probe.type == hdr.probe.state) { hdr.probe.b = 1; } }
        else if (hdr.probe.op == 12) { if (hdr.probe.hash < 5) { hdr.probe.b = 2; } }
        else if (hdr.probe.op == 13) { Direct.apply(hdr.probe.a, hdr.probe.b[7:4]); }
        else if (hdr.probe.op == 14) { if (standard.parser_error == error.Mine) { hdr.probe.b = 1; } }
        else if (hdr.probe.op == 15) { hdr.counted.setValid(); hdr.counted.valid = 3; hdr.counted.auto = 4; }
        else if (hdr.probe.op == 16) { hdr.extra.setValid(); hdr.extra.f = 1; hdr.second = hdr.extra; hdr.extra.setInvalid(); }
        counted.count(1);
    }
}
control After(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { if (hdr.probe.op < 4 || hdr.probe.op == 15) { hdr.probe.length = standard.packet_length[15:0]; } }
}
PACKAGE
