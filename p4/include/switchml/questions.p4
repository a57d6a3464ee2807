// Queries that go up: one a round, whose answer comes to all workers. One that is marked has waited for it in vain.
#ifndef QUESTIONS_P4
#define QUESTIONS_P4
#include "headers.p4"
#include "metadata.p4"

control Questions(in headers_t hdr, inout metadata_t meta) {
    register<bit<1>>(POOL_CELLS) asked;

    apply {
        asked.read(meta.asked, meta.cell);
        if (meta.stale == 0) {
            if (meta.first == 1) {
                asked.write(meta.cell, 0);
            } else if (hdr.switchml.kind == KIND_QUERY && meta.complete == 1) {
                asked.write(meta.cell, 1);
                if (hdr.switchml.mark == 1) {
                    meta.asked = 0;
                }
            }
        }
    }
}

#endif
