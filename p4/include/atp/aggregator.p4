// An aggregator: its owner, the children that are in, when it was last touched, and its values (values.p4). It is read
// (ownership.p4, then closing.p4 and children.p4, which build on it), next_step.p4 decides, and it is updated. It is
// free where its bitmap is 0.
#ifndef AGGREGATOR_P4
#define AGGREGATOR_P4
#include "headers.p4"
#include "metadata.p4"
#include "ownership.p4"
#include "closing.p4"
#include "children.p4"
#include "next_step.p4"
#include "values.p4"
#include "../exponents.p4"
#include "../tag.p4"
#ifdef ESA
#include "../esa/preemption.p4"
#endif

control Aggregator(inout headers_t hdr, inout atp_metadata_t meta, inout standard_metadata_t standard, out atp_step_t next) {
    register<owner_t>(AGGREGATORS) owner;
    register<bitmap_t>(AGGREGATORS) bitmap;
    register<bit<8>>(AGGREGATORS) count;            // of children in
    register<bit<1>>(AGGREGATORS) bare;             // it holds tags in place of vectors
    register<bit<1>>(AGGREGATORS) ecn;
    register<bit<1>>(AGGREGATORS) again;            // some of it was sent again for an answer
    register<microseconds_t>(AGGREGATORS) touched;
    register<owner_t>(AGGREGATORS) refused;         // who has last found it taken
    register<owner_t>(AGGREGATORS) finished;        // whose result has passed last
    register<bit<1>>(AGGREGATORS) asked;            // a query has gone on since it was claimed, or since the last status
    register<microseconds_t>(1) lifetime;           // that others respect an untouched one; 0: for ever
    AtpOwnership() ownership;
    Closing() closing;
    Children() children;
    AtpNextStep() next_step;
    Values() values;
    Tag(AGGREGATORS) tag;
    Exponents(AGGREGATORS) exponents;
#ifdef ESA
    Preemption() preemption;
    Eviction() eviction;
#endif

    apply {
        bit<32> cell = (bit<32>)hdr.atp.index;
        owner_t held_by;
        microseconds_t since;
        microseconds_t limit;
        owner.read(held_by, cell);
        bitmap.read(meta.bitmap, cell);
        count.read(meta.count, cell);
        bare.read(meta.bare, cell);
        ecn.read(meta.ecn, cell);
        again.read(meta.again, cell);
        touched.read(since, cell);
        lifetime.read(limit, 0);
#ifdef ESA
        held_t held;
        claim_t claim;
        held.owner = held_by;
        held.bitmap = meta.bitmap;
        held.ecn = meta.ecn;
        held.again = meta.again;
#endif
        ownership.apply(hdr, meta, held_by, standard.ingress_global_timestamp - since, limit);

        owner_t turned_away;
        owner_t over_with;
        refused.read(turned_away, cell);
        finished.read(over_with, cell);
        meta.refused = 0;
        if (turned_away == meta.owner || over_with == meta.owner) {
            meta.refused = 1;
        }
        asked.read(meta.asked, cell);
        if (hdr.atp.asked == 1) {
            meta.asked = 0;  // the answer was waited for in vain
        }
        closing.apply(hdr, meta);
        children.apply(hdr, meta);

        next_step.apply(hdr, meta, next);
#ifdef ESA
        preemption.apply(hdr, meta, next, claim);
#endif
        values.apply(hdr, meta);
        tag.apply(hdr.tag, meta.operation, cell);
        if (hdr.largest.isValid()) {
            exponents.apply(hdr.largest.exponent, meta.operation, cell);
        }

        if (meta.change == change_t.CLAIM) {
            bit<1> is_bare = 0;
            if (hdr.tag.isValid()) {
                is_bare = 1;
            }
            owner.write(cell, meta.owner);
            bare.write(cell, is_bare);
        }
        if (meta.change == change_t.CLAIM || (hdr.atp.kind == atp_kind_t.STATUS && meta.own == 1)) {
            asked.write(cell, 0);
        } else if (hdr.atp.kind == atp_kind_t.QUERY && next == atp_step_t.ON_SUM) {
            asked.write(cell, 1);
        }
        if (meta.change == change_t.CLAIM || meta.change == change_t.ADD) {
            bitmap.write(cell, meta.bitmap);
            count.write(cell, meta.count);
            ecn.write(cell, meta.ecn | hdr.atp.ecn);
            again.write(cell, meta.again | hdr.atp.asked);
            touched.write(cell, standard.ingress_global_timestamp);
        }
        // here or a level below: then not all of this chunk can meet here any more
        if (meta.change == change_t.KEEP && next == atp_step_t.ON_ALONE && hdr.atp.collision == 1) {
            refused.write(cell, meta.owner);
        }
        if (next == atp_step_t.SPREAD) {
            finished.write(cell, meta.owner);
        }
        if (meta.change == change_t.FREE) {
            bitmap.write(cell, 0);
            count.write(cell, 0);
        }
#ifdef ESA
        if (meta.operation == operation_t.EXCHANGE) {
            refused.write(cell, held.owner);
            eviction.apply(hdr, held, claim);
        }
#endif
    }
}

#endif
