// Match kinds, priorities, default actions, hit and miss, action_run, several keys, constant entries.
#define PROBE_FIELDS bit<32> address; bit<16> left; bit<16> right; bit<8> result; bit<8> second; bit<8> third; bit<8> fourth;
#include "frame.p4"
NO_EGRESS
control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action set_result(bit<8> value) { hdr.probe.result = value; }
    action set_second(bit<8> value, bit<8> more) { hdr.probe.second = value + more; }
    action set_third(bit<8> value) { hdr.probe.third = value; }
    action add(in bit<8> much, bit<8> more) { hdr.probe.fourth = hdr.probe.fourth + much + more; }
    action nothing() {}
    table by_prefix { key = { hdr.probe.address : lpm; } actions = { set_result; nothing; } size = 64; default_action = set_result(255); }
    table by_mask { key = { hdr.probe.left : ternary; hdr.probe.right : ternary; } actions = { set_second; nothing; } size = 64; default_action = nothing(); }
    table by_range { key = { hdr.probe.left : range; hdr.probe.right : exact; } actions = { set_third; nothing; } size = 64; default_action = set_third(9); }
    table exactly { key = { hdr.probe.left : exact; hdr.probe.right : exact; } actions = { add(hdr.probe.result); nothing; } size = 64; default_action = nothing(); }
    table fixed {
        key = { hdr.probe.left : ternary; hdr.probe.right : exact; }
        actions = { set_third; nothing; }
        const default_action = nothing();
        const entries = {
            (0x10 &&& 0xf0, 1): set_third(1);
            (_, 1): set_third(2);
            (0x20, 2): set_third(3);
            (0x20 &&& 0x20, 2): nothing();
        }
    }
    apply {
        standard.egress_spec = 1;
        if (by_prefix.apply().hit) { hdr.probe.fourth = 16; } else { hdr.probe.fourth = 32; }
        switch (by_mask.apply().action_run) {
            set_second: { hdr.probe.fourth = hdr.probe.fourth + 1; }
            nothing: { hdr.probe.fourth = hdr.probe.fourth + 2; }
        }
        by_range.apply();
        exactly.apply();
        if (!fixed.apply().hit) { standard.egress_spec = 2; }
    }
}
PACKAGE
