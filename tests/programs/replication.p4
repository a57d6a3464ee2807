// Multicast, clones at ingress and egress, resubmission, recirculation, truncation, drops: probe.op says which.
#define PROBE_FIELDS bit<8> op; bit<8> mark; bit<8> kind; bit<8> turn; bit<16> rid; bit<16> port; bit<8> kept; bit<8> lost;
#define METADATA_FIELDS @field_list(1, 2) bit<8> kept; bit<8> lost; @field_list(2) bit<8> also;
#include "frame.p4"
control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hdr.probe.turn = hdr.probe.turn + 1;
        standard.egress_spec = 1;
        if (hdr.probe.op == 1) { hdr.probe.mark = 0xaa; standard.mcast_grp = 5; }
        if (hdr.probe.op == 2) { meta.kept = 7; meta.lost = 8; clone_preserving_field_list(CloneType.I2E, 100, 1); hdr.probe.mark = 0xbb; }
        if (hdr.probe.op == 3) { hdr.probe.mark = 0xcc; }
        if (hdr.probe.op == 4 && standard.instance_type == 0) { meta.kept = 3; meta.lost = 4; hdr.probe.mark = 0xdd; resubmit_preserving_field_list(1); }
        if (hdr.probe.op == 4 && standard.instance_type == 6) { hdr.probe.kept = meta.kept; hdr.probe.lost = meta.lost; hdr.probe.kind = 6; }
        if (hdr.probe.op == 5 && standard.instance_type == 4) { hdr.probe.kept = meta.kept; hdr.probe.lost = meta.lost; hdr.probe.op = 50; }
        if (hdr.probe.op == 6) { truncate(20); }
        if (hdr.probe.op == 7) { standard.mcast_grp = 5; mark_to_drop(standard); }
        if (hdr.probe.op == 8) { mark_to_drop(standard); standard.egress_spec = 2; }
        if (hdr.probe.op == 9) { standard.egress_spec = 511; }
        if (hdr.probe.op == 10) { standard.mcast_grp = 77; }
        if (hdr.probe.op == 11) { mark_to_drop(standard); standard.mcast_grp = 5; }
        if (hdr.probe.op == 12) { clone(CloneType.I2E, 100); mark_to_drop(standard); }
        if (hdr.probe.op == 13) { meta.kept = 1; meta.also = 2; clone_preserving_field_list(CloneType.I2E, 101, 2); standard.egress_spec = 3; }
        if (hdr.probe.op == 14) { clone(CloneType.I2E, 444); }
    }
}
control After(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (hdr.probe.op == 3 && standard.instance_type == 0) { meta.kept = 5; meta.lost = 6; clone_preserving_field_list(CloneType.E2E, 100, 1); hdr.probe.mark = hdr.probe.mark + 1; }
        if (hdr.probe.op == 5) { meta.kept = 9; meta.lost = 10; hdr.probe.mark = 0x55; recirculate_preserving_field_list(1); }
        if (hdr.probe.op == 15) { mark_to_drop(standard); }
        if (hdr.probe.op == 16) { truncate(17); }
        if (hdr.probe.op != 4 && hdr.probe.op != 50) { hdr.probe.kept = meta.kept; hdr.probe.lost = meta.lost + meta.also; hdr.probe.kind = standard.instance_type[7:0]; }
        hdr.probe.rid = standard.egress_rid;
        hdr.probe.port = (bit<16>)standard.egress_port;
    }
}
PACKAGE
