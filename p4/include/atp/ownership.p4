// Decides whether a packet owns its aggregator: the stored owner is the packet's (epoch, job, sequence), and is not so
// old that sequence numbers have wrapped. An aggregator that an earlier group of the job left behind is free. One that
// is untouched for its lifetime is free to others.
#ifndef ATP_OWNERSHIP_P4
#define ATP_OWNERSHIP_P4
#include "headers.p4"
#include "metadata.p4"

control AtpOwnership(in headers_t hdr, inout atp_metadata_t meta, in owner_t held_by, in microseconds_t age, in microseconds_t lifetime) {
    apply {
        meta.owner = hdr.atp.epoch ++ hdr.atp.job ++ hdr.atp.sequence;
        meta.own = 0;
        int<32> later = (int<32>)(hdr.atp.epoch - held_by[63:32]);
        if (held_by[31:24] == hdr.atp.job && later >= 0 && hdr.atp.kind == atp_kind_t.RELEASE) {
            if (meta.bitmap != 0) {
                meta.own = 1;  // a release is for all that this group and earlier ones have left
            }
        } else if (held_by[31:24] == hdr.atp.job && later > 0) {
            meta.bitmap = 0;  // left behind by an earlier group of the job
        } else if (meta.bitmap != 0 && held_by == meta.owner && age < AGE_SEQUENCE) {
            meta.own = 1;
        }
        meta.held = 0;
        if (meta.own == 1 || (meta.bitmap != 0 && (lifetime == 0 || age <= lifetime))) {
            meta.held = 1;
        }
        if (meta.own == 0) {
            meta.bitmap = 0;  // what it holds is not about this packet's chunk
            meta.count = 0;
            meta.ecn = 0;
            meta.again = 0;
        }
    }
}

#endif
