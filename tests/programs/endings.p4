// How a packet's way ends: probe.op says what a parser within the parser does, probe.kind what ingress calls and probe.then what
// egress does; each by an action, a function or a control that takes the standard metadata as `inout`.
#define PROBE_FIELDS bit<8> op; bit<8> kind; bit<8> then; bit<8> inner; bit<8> tail; bit<8> fault; bit<8> left; bit<8> turn;
#define METADATA_FIELDS bit<8> left;
#define EXTRA_TYPES header inner_t { bit<8> v; } header tail_t { bit<8> v; }
#define EXTRA_HEADERS inner_t inner; tail_t tail;
#define OWN_PARSER
#include "frame.p4"
parser Innermost(packet_in packet, inout headers_t hdr) {
    state start { transition select(hdr.inner.v) { 1: accept; 2: reject; 4: far; } }
    state far { verify(false, error.HeaderTooShort); transition accept; }
}
parser Inner(packet_in packet, inout headers_t hdr, out bit<8> left) {
    Innermost() innermost;
    state start { left = 9; packet.extract(hdr.inner); innermost.apply(packet, hdr); transition accept; }
}
parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    Inner() inner;
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.probe);
        meta.left = 1;
        transition select(hdr.probe.op) { 1: within; default: accept; }
    }
    state within { inner.apply(packet, hdr, meta.left); packet.extract(hdr.tail); transition accept; }
}
void end_by_function(inout standard_metadata_t sm) { mark_to_drop(sm); }
control End(inout standard_metadata_t sm) { apply { mark_to_drop(sm); } }
control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    End() end_by_control;
    action end(inout standard_metadata_t sm) { mark_to_drop(sm); }
    action end_within(inout standard_metadata_t sm) { end(sm); }
    action end_not(inout standard_metadata_t sm) { mark_to_drop(sm); sm.egress_spec = 2; }
    action copy(inout standard_metadata_t sm) { clone(CloneType.I2E, 100); sm.egress_spec = 1; }
    action again(inout standard_metadata_t sm) { resubmit_preserving_field_list(0); sm.egress_spec = 2; }
    action group(inout standard_metadata_t sm) { sm.mcast_grp = 1; }
    table ends { actions = { end(standard); } default_action = end(standard); }
    apply {
        standard.egress_spec = 1;
        hdr.probe.inner = hdr.inner.isValid() ? 8w1 : 0;
        hdr.probe.tail = hdr.tail.isValid() ? 8w1 : 0;
        hdr.probe.left = meta.left;
        if (standard.parser_error == error.NoError) { hdr.probe.fault = 1; }
        if (standard.parser_error == error.HeaderTooShort) { hdr.probe.fault = 2; }
        if (hdr.probe.kind == 1) { mark_to_drop(standard); }
        if (hdr.probe.kind == 2) { end(standard); }
        if (hdr.probe.kind == 3) { end_within(standard); }
        if (hdr.probe.kind == 4) { ends.apply(); }
        if (hdr.probe.kind == 5) { end_by_function(standard); }
        if (hdr.probe.kind == 6) { end_by_control.apply(standard); }
        if (hdr.probe.kind == 7) { end_not(standard); }
        if (hdr.probe.kind == 8) { copy(standard); }
        if (hdr.probe.kind == 9 && standard.instance_type == 0) { again(standard); }
        if (hdr.probe.kind == 10) { copy(standard); end(standard); }
        if (hdr.probe.kind == 11) { group(standard); end(standard); }
        if (hdr.probe.kind == 12) { end(standard); group(standard); }
    }
}
control After(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    End() end_by_control;
    action end(inout standard_metadata_t sm) { mark_to_drop(sm); }
    action end_within(inout standard_metadata_t sm) { end(sm); }
    action end_not(inout standard_metadata_t sm) { mark_to_drop(sm); sm.egress_spec = 2; }
    action copy(inout standard_metadata_t sm) { clone(CloneType.E2E, 100); }
    action around(inout standard_metadata_t sm) { recirculate_preserving_field_list(0); sm.priority = 1; }
    table ends { actions = { end(standard); } default_action = end(standard); }
    apply {
        if (!hdr.probe.isValid()) { return; }
        if (hdr.probe.then == 1) { mark_to_drop(standard); }
        if (hdr.probe.then == 2) { end(standard); }
        if (hdr.probe.then == 3) { end_within(standard); }
        if (hdr.probe.then == 4) { ends.apply(); }
        if (hdr.probe.then == 5) { end_by_function(standard); }
        if (hdr.probe.then == 6) { end_by_control.apply(standard); }
        if (hdr.probe.then == 7) { end_not(standard); }
        if (hdr.probe.then == 8 && standard.instance_type == 0) { copy(standard); }
        if (hdr.probe.then == 9 && hdr.probe.turn == 0) { hdr.probe.turn = 1; around(standard); }
    }
}
PACKAGE
