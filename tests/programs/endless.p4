// Packets that never come to an end: probe.op says how. probe.left counts down where it does not begin at 0.
#define PROBE_FIELDS bit<8> op; bit<16> left;
#define METADATA_FIELDS @field_list(1) bit<16> left;
#include "frame.p4"
control Work(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
        if (standard.instance_type != 6) { meta.left = hdr.probe.left; }
        if (hdr.probe.op == 1) { meta.left = meta.left - 1; if (meta.left != 0) { resubmit_preserving_field_list(1); } }
        if (hdr.probe.op == 4) { standard.mcast_grp = 5; }
        if (hdr.probe.op == 6) { clone(CloneType.I2E, 100); }
    }
}
control After(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        hdr.probe.left = hdr.probe.left - 1;
        if (hdr.probe.left == 0) { return; }
        if (hdr.probe.op == 2) { recirculate_preserving_field_list(0); }
        if (hdr.probe.op == 3 || hdr.probe.op == 4) { clone(CloneType.E2E, 100); }
        if (hdr.probe.op == 5) { clone(CloneType.E2E, 101); }
    }
}
PACKAGE
