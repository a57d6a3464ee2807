// Constant entries: the longest prefix, signed keys, priorities; each table writes its own byte, 255 for its default action.
#define PROBE_FIELDS bit<32> address; int<8> s; bit<8> op; bit<8> route; bit<8> mixed; bit<8> exactly; bit<8> masked; bit<8> ranged; \
    bit<8> ordered; bit<8> added; bit<8> signed;
#include "frame.p4"
NO_EGRESS
control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action route(bit<8> v) { hdr.probe.route = v; }
    action mixed(bit<8> v) { hdr.probe.mixed = v; }
    action exactly(bit<8> v) { hdr.probe.exactly = v; }
    action masked(bit<8> v) { hdr.probe.masked = v; }
    action ranged(bit<8> v) { hdr.probe.ranged = v; }
    action ordered(bit<8> v) { hdr.probe.ordered = v; }
    action added(bit<8> v) { hdr.probe.added = v; }
    table routes {
        key = { hdr.probe.address : lpm; }
        actions = { route; }
        const default_action = route(255);
        const entries = {
            0x0a000000 &&& 0xff000000 : route(1);
            0x0a010203 : route(4);
            0x0a010000 &&& 0xffff0000 : route(2);
            0x0a010200 &&& 0xffffff00 : route(3);
            0x80000000 &&& 0x80000000 : route(5);
            0 &&& 0 : route(9);
        }
    }
    table without_default_route {
        key = { hdr.probe.op : exact; hdr.probe.address : lpm; }
        actions = { mixed; }
        const default_action = mixed(255);
        const entries = {
            (1, 0x0a000000 &&& 0xff000000) : mixed(1);
            (1, 0x0a010000 &&& 0xffff0000) : mixed(2);
            (2, _) : mixed(3);
            (2, 0x0a010203) : mixed(4);
        }
    }
    table exact_signed {
        key = { hdr.probe.s : exact; }
        actions = { exactly; }
        const default_action = exactly(255);
        const entries = { -1 : exactly(1); 5 : exactly(2); -128 : exactly(3); 127 : exactly(4); }
    }
    table ternary_signed {
        key = { hdr.probe.s : ternary; }
        actions = { masked; }
        const default_action = masked(255);
        const entries = { -16 &&& -16 : masked(1); -128 &&& -128 : masked(2); 1 &&& 1 : masked(3); }
    }
    table range_signed {
        key = { hdr.probe.s : range; }
        actions = { ranged; }
        const default_action = ranged(255);
        const entries = { 1 .. 5 : ranged(1); 5 .. 127 : ranged(2); -10 .. -5 : ranged(3); -128 : ranged(4); }
    }
    table by_priority {
        key = { hdr.probe.op : ternary; }
        actions = { ordered; }
        const default_action = ordered(255);
        const entries = {
            0x10 &&& 0xf0 : ordered(1) @priority(30);
            0x11 : ordered(2) @priority(20);
            0x01 &&& 0x0f : ordered(3) @priority(10);
            0x12 : ordered(4) @priority(40);
        }
    }
    table added_signed { key = { hdr.probe.s : exact; } actions = { added; } size = 8; default_action = added(255); }
    apply {
        standard.egress_spec = 1;
        routes.apply();
        without_default_route.apply();
        exact_signed.apply();
        ternary_signed.apply();
        range_signed.apply();
        by_priority.apply();
        added_signed.apply();
    }
}
PACKAGE
