// An aggregator: who holds it, which children are in, since when nothing has changed, and its values (values.p4). It is
// looked at, what to do is decided (next_step.p4), and then it is brought up to date. It is free where its bitmap is 0.
#ifndef AGGREGATOR_P4
#define AGGREGATOR_P4
#include "headers.p4"
#include "metadata.p4"
#include "next_step.p4"
#include "values.p4"

control Aggregator(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard,
                   out bit<3> next) {
    register<bit<64>>(AGGREGATORS) owner;     // epoch (32 bits), job (8) and sequence (24)
    register<bitmap_t>(AGGREGATORS) bitmap;
    register<bit<8>>(AGGREGATORS) count;      // of children in
    register<bit<1>>(AGGREGATORS) ecn;
    register<bit<1>>(AGGREGATORS) again;      // some of it was sent again for an answer
    register<bit<48>>(AGGREGATORS) touched;   // microseconds
    register<bit<64>>(AGGREGATORS) refused;   // the (epoch, job, sequence) that has last found it taken
    register<bit<64>>(AGGREGATORS) finished;  // the (epoch, job, sequence) whose result has passed last
    register<bit<1>>(AGGREGATORS) asked;      // a query has gone on since it was claimed, or since the last status
    register<bit<48>>(1) lifetime;            // microseconds that others respect an untouched one; 0: for ever
    register<epoch_t>(MAX_JOBS) closed;       // the epoch that claims no more
    NextStep() next_step;
    Values() values;

    apply {
        bit<32> cell = (bit<32>)hdr.atp.index;
        bit<32> job = (bit<32>)hdr.atp.job;
        bit<64> held_by;
        bitmap_t before;
        bit<8> n;
        bit<48> since;
        bit<48> limit;
        bit<48> age;
        bit<64> turned_away;
        bit<64> over_with;
        epoch_t over;
        owner.read(held_by, cell);
        bitmap.read(before, cell);
        count.read(n, cell);
        ecn.read(meta.ecn, cell);
        again.read(meta.again, cell);
        touched.read(since, cell);
        refused.read(turned_away, cell);
        finished.read(over_with, cell);
        lifetime.read(limit, 0);
        closed.read(over, job);

        age = standard.ingress_global_timestamp - since;
        meta.closed = 0;
        if (over == hdr.atp.epoch) {
            meta.closed = 1;
        }
        meta.owner = hdr.atp.epoch ++ hdr.atp.job ++ hdr.atp.sequence;
        meta.own = 0;
        int<32> later = (int<32>)(hdr.atp.epoch - held_by[63:32]);
        if (held_by[31:24] == hdr.atp.job && later >= 0 && hdr.atp.kind == KIND_RELEASE) {
            if (before != 0) {
                meta.own = 1;  // a release is for all that this group and earlier ones have left
            }
        } else if (held_by[31:24] == hdr.atp.job && later > 0) {
            before = 0;  // left behind by an earlier group of the job
        } else if (before != 0 && held_by == meta.owner && age < AGE_SEQUENCE) {
            meta.own = 1;
        }
        meta.held = 0;
        if (meta.own == 1 || (before != 0 && (limit == 0 || age <= limit))) {
            meta.held = 1;
        }
        meta.refused = 0;
        if (turned_away == meta.owner || over_with == meta.owner) {
            meta.refused = 1;
        }
        if (meta.own == 0) {
            before = 0;
            n = 0;
            meta.ecn = 0;
            meta.again = 0;
        }

        bitmap_t child = hdr.atp.bitmap1;
        meta.mergeable = 1;
        if (hdr.atp.edge_switch == 0) {
            child = hdr.atp.bitmap0;
        } else if (hdr.atp.bitmap0 != 0 && hdr.atp.kind != KIND_STATUS) {
            meta.mergeable = 0;
        }
        if (hdr.atp.raw == 1) {
            meta.mergeable = 0;  // raw values meet at the server alone
        }
        bitmap_t there = before;
        if (hdr.atp.kind == KIND_STATUS) {
            there = hdr.atp.bitmap1;
            child = meta.rack;
            if (meta.rack == 0) {
                child = there;
            }
        }
        meta.repeated = 0;
        if (there & child != 0) {
            meta.repeated = 1;
        }
        if (hdr.atp.kind == KIND_QUERY || hdr.atp.kind == KIND_STATUS) {
            child = 0;
        } else if (meta.repeated == 0) {
            n = n + 1;
        }
        meta.bitmap = before | child;
        meta.count = n;
        meta.complete = 0;
        if (n == meta.fan_in) {
            meta.complete = 1;
        }

        asked.read(meta.asked, cell);
        if (hdr.atp.asked == 1) {
            meta.asked = 0;  // the answer was waited for in vain
        }

        next_step.apply(hdr, meta, next);
        values.apply(hdr, meta);

        if (meta.change == SLOT_CLAIM) {
            owner.write(cell, meta.owner);
        }
        if (meta.change == SLOT_CLAIM || (hdr.atp.kind == KIND_STATUS && meta.own == 1)) {
            asked.write(cell, 0);
        } else if (hdr.atp.kind == KIND_QUERY && next == STEP_ON_SUM) {
            asked.write(cell, 1);
        }
        if (meta.change == SLOT_CLAIM || meta.change == SLOT_ADD) {
            bitmap.write(cell, meta.bitmap);
            count.write(cell, meta.count);
            ecn.write(cell, meta.ecn | hdr.atp.ecn);
            again.write(cell, meta.again | hdr.atp.asked);
            touched.write(cell, standard.ingress_global_timestamp);
        }
        // here or a level below: then not all of this chunk can meet here any more
        if (meta.change == SLOT_KEEP && next == STEP_ON_ALONE && hdr.atp.collision == 1) {
            refused.write(cell, meta.owner);
        }
        if (next == STEP_SPREAD) {
            finished.write(cell, meta.owner);
        }
        if (meta.change == SLOT_FREE) {
            bitmap.write(cell, 0);
            count.write(cell, 0);
        }
        if (hdr.atp.kind == KIND_RELEASE && meta.role == ROLE_ADDRESSEE && meta.outdated == 0) {
            closed.write(job, hdr.atp.epoch);
        }
    }
}

#endif
