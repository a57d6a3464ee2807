// Who is in: one bit a worker, so that a retransmission is never added twice.
#ifndef BITMAP_CHECKER_P4
#define BITMAP_CHECKER_P4
#include "headers.p4"
#include "metadata.p4"

control BitmapChecker(in headers_t hdr, inout switchml_metadata_t meta) {
    register<bitmap_t>(POOL_CELLS) seen;

    apply {
        bitmap_t before;
        seen.read(before, meta.cell);
        if (meta.fresh == 1 || meta.stale == 1) {
            before = 0;  // what the cell holds is not about this packet's chunk
        }
        meta.seen = before;
        if (hdr.switchml.kind == switchml_kind_t.UPDATE && meta.stale == 0) {
            bitmap_t worker = (bitmap_t)1 << hdr.switchml.worker;
            if (before == 0) {
                meta.first = 1;
            }
            if (before & worker != 0) {
                meta.repeated = 1;
            }
            meta.seen = before | worker;
            seen.write(meta.cell, meta.seen);
        }
        if (hdr.switchml.kind == switchml_kind_t.STATUS && (hdr.switchml.mark != 0 || (hdr.status.seen >> hdr.switchml.worker) & 1 == 1)) {
            meta.repeated = 1;  // a status from further up is about the parent's own part, and others'
        }
        if (meta.seen == meta.everyone) {
            meta.complete = 1;
        }
    }
}

#endif
