// How many are in, and whether the pool already holds the sum over all racks.
#ifndef WORKERS_COUNTER_P4
#define WORKERS_COUNTER_P4
#include "headers.p4"
#include "metadata.p4"

control WorkersCounter(in headers_t hdr, inout switchml_metadata_t meta) {
    register<bit<8>>(POOL_CELLS) count;      // of workers in; the bitmap decides, this is for those who watch
    register<bit<1>>(POOL_CELLS) final_sum;  // 1 once the parent's result is in the pool

    apply {
        bit<8> n;
        count.read(n, meta.cell);
        final_sum.read(meta.has_final, meta.cell);
        if (meta.stale == 0) {
            if (hdr.switchml.kind == switchml_kind_t.UPDATE && meta.repeated == 0) {
                if (meta.first == 1) {
                    n = 0;
                    meta.has_final = 0;
                }
                count.write(meta.cell, n + 1);
            }
            if (hdr.switchml.kind == switchml_kind_t.RESULT && meta.complete == 1) {
                final_sum.write(meta.cell, 1);
            } else {
                final_sum.write(meta.cell, meta.has_final);
            }
        }
    }
}

#endif
