// Where a packet goes when nobody says, and who wins when several do: probe.op says what ingress does, probe.then what egress does.
#define PROBE_FIELDS bit<8> op; bit<8> then; bit<16> port; bit<8> kind; bit<8> turn; bit<16> length; bit<16> group;
#define METADATA_FIELDS @field_list(1) bit<8> turns;
#include "frame.p4"
control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (standard.parser_error == error.PacketTooShort) { hdr.ethernet.kind = 0xdead; return; }
        if (hdr.probe.op == 1) { standard.egress_spec = (bit<9>)hdr.probe.port; }
        if (hdr.probe.op == 2) { standard.egress_port = 3; }                                       // not what decides
        if (hdr.probe.op == 3) { standard.egress_spec = standard.ingress_port; }
        if (hdr.probe.op == 4) { mark_to_drop(standard); standard.egress_spec = (bit<9>)hdr.probe.port; }
        if (hdr.probe.op == 5) { standard.mcast_grp = hdr.probe.group; standard.egress_spec = (bit<9>)hdr.probe.port; }
        if (hdr.probe.op == 6) { standard.mcast_grp = hdr.probe.group; standard.egress_spec = 511; }
        if (hdr.probe.op == 7) { standard.egress_spec = 2; clone(CloneType.I2E, 100); standard.mcast_grp = hdr.probe.group; }
        if (hdr.probe.op == 8 && standard.instance_type == 0) { standard.egress_spec = 2; clone(CloneType.I2E, 100); resubmit_preserving_field_list(0); }
        if (hdr.probe.op == 8 && standard.instance_type == 6) { standard.egress_spec = 3; }
        if (hdr.probe.op == 9 && standard.instance_type == 0) { standard.mcast_grp = hdr.probe.group; resubmit_preserving_field_list(0); }
        if (hdr.probe.op == 10 && meta.turns < 3) { meta.turns = meta.turns + 1; resubmit_preserving_field_list(1); }
        if (hdr.probe.op == 10) { hdr.probe.turn = meta.turns; standard.egress_spec = 1; }
        if (hdr.probe.op == 11) { clone(CloneType.I2E, 100); clone(CloneType.I2E, 102); standard.egress_spec = 1; }
        if (hdr.probe.op == 12 && standard.instance_type == 0) { mark_to_drop(standard); resubmit_preserving_field_list(0); }
        hdr.probe.length = standard.packet_length[15:0];
    }
}
control After(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (!hdr.probe.isValid()) { return; }
        hdr.probe.kind = standard.instance_type[7:0];
        if (hdr.probe.then == 1) { mark_to_drop(standard); }
        if (hdr.probe.then == 2) { standard.egress_spec = 4; }                                     // too late
        if (hdr.probe.then == 3) { standard.egress_spec = 511; }
        if (hdr.probe.then == 4 && standard.instance_type == 0) { clone(CloneType.E2E, 102); mark_to_drop(standard); }
        if (hdr.probe.then == 5 && standard.instance_type == 0) { clone(CloneType.E2E, 101); }
        if (hdr.probe.then == 6 && hdr.probe.turn == 0) { hdr.probe.turn = 1; recirculate_preserving_field_list(0); mark_to_drop(standard); }
        if (hdr.probe.then == 7 && hdr.probe.turn == 0) { hdr.probe.turn = 1; recirculate_preserving_field_list(0); clone(CloneType.E2E, 102); hdr.probe.op = 3; }
        if (hdr.probe.then == 8) { truncate(16); }
    }
}
PACKAGE
