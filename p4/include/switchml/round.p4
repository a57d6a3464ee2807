// Which chunk of which epoch a cell is working on. The paper leaves this to FIFO paths and to a pool that nobody used
// before; here a packet that was delayed past its round, or past its group, is told from one that opens a new round, so
// neither reordering nor a restart can add to a wrong sum.
#ifndef ROUND_P4
#define ROUND_P4
#include "headers.p4"
#include "metadata.p4"

// In a round either all packets have vectors or all have tags. Otherwise the sum would lack a worker's part. A packet of
// the other shape is ignored.
control Round(in headers_t hdr, inout metadata_t meta) {
    register<round_t>(POOL_CELLS) round;
    register<bit<1>>(POOL_CELLS) bare;
    counter(POOL_CELLS, CounterType.packets) stale;  // packets that came too late, or have another shape

    apply {
        round_t current;
        bit<1> carries = 0;  // an update or a result
        bit<1> is_bare = 0;
        round.read(current, meta.cell);
        bare.read(meta.bare, meta.cell);
        if (hdr.switchml.kind == kind_t.UPDATE || hdr.switchml.kind == kind_t.RESULT) {
            carries = 1;
        }
        if (hdr.tag.isValid()) {
            is_bare = 1;
        }
        int<32> ahead = (int<32>)(hdr.switchml.chunk - current[31:0]);
        if (meta.outdated == 1) {
            meta.stale = 1;
        } else if (current[63:32] != hdr.switchml.epoch || ahead > 0) {
            meta.fresh = 1;
            if (hdr.switchml.kind == kind_t.UPDATE) {
                round.write(meta.cell, hdr.switchml.epoch ++ hdr.switchml.chunk);
                bare.write(meta.cell, is_bare);
            }
        } else if (ahead < 0 || (carries == 1 && is_bare != meta.bare)) {
            meta.stale = 1;
        }
        if (meta.stale == 1) {
            stale.count(meta.cell);
        }
    }
}

#endif
