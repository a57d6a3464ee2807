// Which chunk of which epoch a cell is working on. The paper leaves this to FIFO paths and to a pool that nobody used
// before; here a packet that was delayed past its round, or past its group, is told from one that opens a new round, so
// neither reordering nor a restart can add to a wrong sum.
#ifndef ROUND_P4
#define ROUND_P4
#include "headers.p4"
#include "metadata.p4"
#include "part.p4"

typedef bit<32> shape_t;  // of a round: the owner of its chunk, the flow, and whether it has tags in place of vectors
const shape_t SHAPE_BARE = 1;

// In a round either all packets have vectors or all have tags; where the chunk has an owner, it is that of all packets, and
// tells which have vectors (part.p4). Otherwise the sum would lack a worker's part. A packet of another shape is ignored.
control Round(in headers_t hdr, inout switchml_metadata_t meta) {
    register<round_t>(POOL_CELLS) round;
    register<shape_t>(POOL_CELLS) shape;
    SwitchMLOwnership() ownership;
    Whole() whole;
    counter(POOL_CELLS, CounterType.packets) stale;  // packets that came too late, or have another shape

    apply {
        round_t current;
        shape_t held;
        shape_t its = 0;
        bit<1> carries = 0;  // an update or a result
        round.read(current, meta.cell);
        shape.read(held, meta.cell);
        if (hdr.switchml.kind == switchml_kind_t.UPDATE || hdr.switchml.kind == switchml_kind_t.RESULT) {
            carries = 1;
        }
        if (hdr.part.isValid()) {
            its = hdr.part.owner ++ (bit<8>)hdr.part.flow ++ (bit<8>)0;
        } else if (hdr.tag.isValid()) {
            its = SHAPE_BARE;
        }
        int<32> ahead = (int<32>)(hdr.switchml.chunk - current[31:0]);
        if (meta.outdated == 1) {
            meta.stale = 1;
        } else if (current[63:32] != hdr.switchml.epoch || ahead > 0) {
            meta.fresh = 1;
            if (hdr.switchml.kind == switchml_kind_t.UPDATE) {
                held = its;
            }
        } else if (ahead < 0 || (carries == 1 && its != held)) {
            meta.stale = 1;
        }
        meta.bare = held[0:0];
        meta.flow = (flow_t)held[15:8];
        meta.owner = held[31:16];
        ownership.apply(hdr, meta);
        if (hdr.switchml.kind == switchml_kind_t.UPDATE || hdr.switchml.kind == switchml_kind_t.QUERY) {
            if ((meta.everyone >> meta.link) & 1 == 0) {
                meta.stale = 1;  // in this tree it is above
            }
        } else if (meta.has_parent == 0 || meta.link != meta.toward) {
            meta.stale = 1;  // or below
        }
        if (hdr.part.isValid()) {
            bit<1> expected;
            whole.apply(meta, hdr.switchml.kind, meta.link, expected);
            if ((expected == 1 && !hdr.vector.isValid()) || (expected == 0 && hdr.vector.isValid())) {
                meta.stale = 1;
            }
        }
        if (meta.fresh == 1 && meta.stale == 0 && hdr.switchml.kind == switchml_kind_t.UPDATE) {
            round.write(meta.cell, hdr.switchml.epoch ++ hdr.switchml.chunk);
            shape.write(meta.cell, its);
        }
        if (meta.stale == 1) {
            stale.count(meta.cell);
        }
    }
}

#endif
