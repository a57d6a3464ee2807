// Which child of this level a packet is from, whether that child is in already, and whether all are. A child is a
// worker, or at level 1 also a complete rack. A gradient of a partial rack is forwarded unmerged, and so is one of another
// shape than what the aggregator holds.
#ifndef CHILDREN_P4
#define CHILDREN_P4
#include "headers.p4"
#include "metadata.p4"

control Children(in headers_t hdr, inout atp_metadata_t meta) {
    apply {
        bitmap_t child = hdr.atp.bitmap1;
        bitmap_t there = meta.bitmap;
        meta.mergeable = 1;
        if (hdr.atp.edge_switch == 0) {
            child = hdr.atp.bitmap0;
        } else if (hdr.atp.bitmap0 != 0 && hdr.atp.kind != atp_kind_t.STATUS) {
            meta.mergeable = 0;
        }
        if (hdr.atp.raw == 1) {
            meta.mergeable = 0;  // raw values meet at the server alone
        }
        if (hdr.atp.kind == atp_kind_t.GRADIENT && meta.own == 1) {
            if (hdr.tag.isValid() != (meta.bare == 1)) {
                meta.mergeable = 0;  // workers that sum different tensors learn it from the server
            }
        }
        if (hdr.atp.kind == atp_kind_t.STATUS) {  // it is about its sender's children, and this switch may be one of them
            there = hdr.atp.bitmap1;
            child = meta.rack;
            if (meta.rack == 0) {
                child = there;
            }
        }
        meta.repeated = 0;
        if (there & child != 0) {
            meta.repeated = 1;
        }
        if (hdr.atp.kind != atp_kind_t.QUERY && hdr.atp.kind != atp_kind_t.STATUS) {
            if (meta.repeated == 0) {
                meta.count = meta.count + 1;
            }
            meta.bitmap = meta.bitmap | child;
        }
        meta.complete = 0;
        if (meta.count == meta.fan_in) {
            meta.complete = 1;
        }
    }
}

#endif
