// Queries that go up: one worker's alone in a round, since the answer comes to all. What others repeat would only bring the
// same vector again, over a link that may carry nothing else by then.
#ifndef QUESTIONS_P4
#define QUESTIONS_P4
#include "headers.p4"
#include "metadata.p4"

const bit<8> MARK_INSISTS = 2;  // of a query

control Questions(in headers_t hdr, inout switchml_metadata_t meta) {
    register<worker_t>(POOL_CELLS) asking;  // worker that asks in this round, plus 1; 0: nobody does

    apply {
        worker_t asker;
        asking.read(asker, meta.cell);
        meta.asked = 0;
        if (meta.stale == 0) {
            if (meta.first == 1) {
                asking.write(meta.cell, 0);
            } else if (hdr.switchml.kind == switchml_kind_t.QUERY && meta.complete == 1) {
                worker_t worker = hdr.switchml.worker + 1;
                if (asker == 0 || hdr.switchml.mark == MARK_INSISTS) {
                    asking.write(meta.cell, worker);
                } else if (asker != worker || hdr.switchml.mark == 0) {
                    meta.asked = 1;
                }
            }
        }
    }
}

#endif
