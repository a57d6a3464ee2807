// Which chunk a cell is working on. The paper leaves this to FIFO paths; here a packet that was delayed past its round
// is told from one that opens a new round, so reordering can never add to a wrong sum.
#ifndef ROUND_P4
#define ROUND_P4
#include "headers.p4"
#include "metadata.p4"

control Round(in headers_t hdr, inout metadata_t meta) {
    register<chunk_t>(POOL_CELLS) chunk;
    counter(POOL_CELLS, CounterType.packets) stale;  // packets that came too late

    apply {
        chunk_t current;
        chunk.read(current, meta.cell);
        int<32> ahead = (int<32>)(hdr.switchml.chunk - current);
        if (ahead < 0) {
            meta.stale = 1;
        } else if (ahead > 0) {
            if (hdr.switchml.kind == KIND_UPDATE) {
                meta.fresh = 1;
                chunk.write(meta.cell, hdr.switchml.chunk);
            } else {
                meta.stale = 1;  // an answer to, or a question about, a chunk that nobody has sent yet
            }
        }
        if (meta.stale == 1) {
            stale.count(meta.cell);
        }
    }
}

#endif
