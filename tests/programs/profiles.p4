// Action profiles and selectors: shared by tables, chosen from by several hashes, as a default, in switch and for hit.
// BMv2 ends where tables that share a profile are also asked for action_run: p4c gives each table actions of its own.
#define PROBE_FIELDS bit<8> op; bit<8> key; bit<16> left; bit<32> right; bit<8> result; bit<8> second;
#include "frame.p4"
NO_EGRESS
control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action to(bit<9> port, bit<8> value) { standard.egress_spec = port; hdr.probe.result = value; }
    action more(bit<8> value) { hdr.probe.result = hdr.probe.result + value; hdr.probe.second = 0x55; }
    action nothing() {}
    action_profile(16) shared;
    action_selector(HashAlgorithm.crc16, 32w16, 32w8) by_crc;
    table first { key = { hdr.probe.key : exact; } actions = { to; more; nothing; } default_action = nothing(); implementation = shared; }
    table last { key = { hdr.probe.key : ternary; } actions = { to; more; nothing; } default_action = nothing(); implementation = shared; }
    table crc {
        key = { hdr.probe.key : lpm; hdr.probe.left : selector; hdr.probe.right : selector; hdr.probe.op : selector; }
        actions = { to; more; nothing; }
        default_action = nothing();
        implementation = by_crc;
    }
    table again {
        key = { hdr.probe.key : range; hdr.probe.left : selector; hdr.probe.right : selector; hdr.probe.op : selector; }
        actions = { to; more; nothing; }
        implementation = by_crc;
    }
    table same {
        key = { hdr.probe.key : exact; hdr.probe.right : selector; }
        actions = { more; nothing; }
        default_action = nothing();
        @name("identical") implementation = action_selector(HashAlgorithm.identity, 32w16, 32w32);
    }
    table long {
        key = { hdr.probe.right : selector; hdr.probe.key : optional; hdr.ethernet.dst : selector; }
        actions = { more; nothing; }
        const default_action = more(77);
        @name("crc32") implementation = action_selector(HashAlgorithm.crc32, 32w16, 32w4);
    }
    apply {
        standard.egress_spec = 1;
        if (hdr.probe.op == 1) { if (first.apply().hit) { hdr.probe.second = 1; } last.apply(); }
        else if (hdr.probe.op < 4) {
            if (!crc.apply().hit) { hdr.probe.second = 4; }
            if (hdr.probe.op == 3) { again.apply(); }
        }
        else if (hdr.probe.op == 4) {
            switch (same.apply().action_run) {
                more: { hdr.probe.second = 2; }
                nothing: { hdr.probe.second = 3; }
            }
        }
        else {
            switch (long.apply().action_run) {
                more: { hdr.probe.second = 5; }
                default: { hdr.probe.second = 6; }
            }
        }
    }
}
PACKAGE
