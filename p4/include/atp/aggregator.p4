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
    register<bit<32>>(AGGREGATORS) owner;     // job (8 bits) and sequence (24)
    register<bitmap_t>(AGGREGATORS) bitmap;
    register<bit<8>>(AGGREGATORS) count;      // of children in
    register<bit<1>>(AGGREGATORS) ecn;
    register<bit<48>>(AGGREGATORS) touched;   // microseconds
    register<bit<33>>(AGGREGATORS) refused;   // 1 and the (job, sequence) that has last found it taken
    register<bit<48>>(1) lifetime;            // microseconds that others respect an untouched one; 0: for ever
    register<bit<1>>(MAX_JOBS) closed;        // 1: claims no more
    NextStep() next_step;
    Values() values;

    apply {
        bit<32> cell = (bit<32>)hdr.atp.index;
        bit<32> job = (bit<32>)hdr.atp.job;
        bit<32> held_by;
        bitmap_t before;
        bit<8> n;
        bit<48> since;
        bit<48> limit;
        bit<33> turned_away;
        owner.read(held_by, cell);
        bitmap.read(before, cell);
        count.read(n, cell);
        ecn.read(meta.ecn, cell);
        touched.read(since, cell);
        refused.read(turned_away, cell);
        lifetime.read(limit, 0);
        closed.read(meta.closed, job);

        meta.owner = hdr.atp.job ++ hdr.atp.sequence;
        meta.own = 0;
        if (before != 0 && (held_by == meta.owner || (hdr.atp.kind == KIND_RELEASE && held_by[31:24] == hdr.atp.job))) {
            meta.own = 1;
        }
        meta.held = 0;
        if (meta.own == 1 || (before != 0 && (limit == 0 || standard.ingress_global_timestamp - since <= limit))) {
            meta.held = 1;
        }
        meta.refused = 0;
        if (turned_away == 1w1 ++ meta.owner) {
            meta.refused = 1;
        }
        if (meta.own == 0) {
            before = 0;
            n = 0;
            meta.ecn = 0;
        }

        bitmap_t child = hdr.atp.bitmap1;
        bit<8> fan_in = hdr.atp.fan_in1;
        meta.mergeable = 1;
        if (hdr.atp.edge_switch == 0) {
            child = hdr.atp.bitmap0;
            fan_in = hdr.atp.fan_in0;
        } else if (hdr.atp.bitmap0 != 0) {
            meta.mergeable = 0;
        }
        meta.repeated = 0;
        if (before & child != 0) {
            meta.repeated = 1;
        } else {
            n = n + 1;
        }
        meta.bitmap = before | child;
        meta.count = n;
        meta.complete = 0;
        if (n == fan_in) {
            meta.complete = 1;
        }

        next_step.apply(hdr, meta, next);
        values.apply(hdr, meta);

        if (meta.change == SLOT_CLAIM) {
            owner.write(cell, meta.owner);
        }
        if (meta.change == SLOT_CLAIM || meta.change == SLOT_ADD) {
            bitmap.write(cell, meta.bitmap);
            count.write(cell, meta.count);
            ecn.write(cell, meta.ecn | hdr.atp.ecn);
            touched.write(cell, standard.ingress_global_timestamp);
        }
        // here or a level below: then not all of this chunk can meet here any more
        if (meta.change == SLOT_KEEP && next == STEP_ON_ALONE && hdr.atp.collision == 1) {
            refused.write(cell, 1w1 ++ meta.owner);
        }
        if (meta.change == SLOT_FREE) {
            bitmap.write(cell, 0);
            count.write(cell, 0);
        }
        if (hdr.atp.kind == KIND_RELEASE && meta.role == ROLE_ADDRESSEE) {
            closed.write(job, 1);
        }
    }
}

#endif
