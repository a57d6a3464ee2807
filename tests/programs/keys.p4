// Keys of headers that are not valid: fields count as zero, whatever they hold, and parts of fields do not.
#define PROBE_FIELDS bit<8> op; bit<8> a; bit<16> b; bit<72> wide; bit<8> seen;
#define EXTRA_TYPES header side_t { bit<8> x; bit<16> y; bit<72> z; }
#define EXTRA_HEADERS side_t side;
#include "frame.p4"
NO_EGRESS
control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action mark(bit<8> value) { hdr.probe.seen = value; }
    table narrow { key = { hdr.side.x : exact; } actions = { mark; } default_action = mark(90); }
    table prefix { key = { hdr.side.y : lpm; } actions = { mark; } default_action = mark(91); }
    table broad { key = { hdr.side.z : ternary; } actions = { mark; } default_action = mark(92); }
    table part { key = { hdr.side.y[15:8] : exact; } actions = { mark; } default_action = mark(93); }
    table fixed { key = { hdr.side.x : exact; } actions = { mark; } default_action = mark(94); const entries = { 0: mark(40); 7: mark(41); } }
    table known { key = { hdr.side.isValid() : exact; hdr.side.x : exact; } actions = { mark; } default_action = mark(95); }
    apply {
        standard.egress_spec = 1;
        hdr.side.setValid();
        hdr.side.x = hdr.probe.a;
        hdr.side.y = hdr.probe.b;
        hdr.side.z = hdr.probe.wide;
        if (hdr.probe.op >= 16) { hdr.side.setInvalid(); }
        if (hdr.probe.op >= 32) { hdr.side.x = 7; hdr.side.y = 0x0707; }
        if (hdr.probe.op & 15 == 0) { narrow.apply(); }
        else if (hdr.probe.op & 15 == 1) { prefix.apply(); }
        else if (hdr.probe.op & 15 == 2) { broad.apply(); }
        else if (hdr.probe.op & 15 == 3) { part.apply(); }
        else if (hdr.probe.op & 15 == 4) { fixed.apply(); }
        else { known.apply(); }
    }
}
PACKAGE
