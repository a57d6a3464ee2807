// SwitchML's stages. A worker's packet passes: admission, its group's epoch, the round it belongs to, the bitmap of who is in, the
// decision what to do, the exponent and the integers of its cell, and the sender.
#ifndef SWITCHML_PIPELINE_P4
#define SWITCHML_PIPELINE_P4
#include "headers.p4"
#include "metadata.p4"
#include "../epoch.p4"
#include "well_formed.p4"
#include "admission.p4"
#include "round.p4"
#include "bitmap_checker.p4"
#include "workers_counter.p4"
#include "questions.p4"
#include "next_step.p4"
#include "part.p4"
#include "../exponents.p4"
#include "../tag.p4"
#include "pool.p4"
#include "sender.p4"

// Whole or not, it is for SwitchML's port, or from there.
#define IS_SWITCHML (hdr.switchml.isValid() || (hdr.udp.isValid() && hdr.udp.dst == UDP_PORT_SWITCHML))

control SwitchML(inout headers_t hdr, inout switchml_metadata_t meta, inout standard_metadata_t standard, out bit<1> passes) {
    WellFormed() well_formed;
    SwitchMLAdmission() admission;
    Place() place;
    Epoch() epoch;
    Round() round;
    BitmapChecker() bitmap_checker;
    WorkersCounter() workers_counter;
    Questions() questions;
    SwitchMLNextStep() next_step;
    Vectors() vectors;
    Exponents(POOL_CELLS) exponents;
    Tag(POOL_CELLS) tag;
    Pool() pool;
    Shape() shape;
    SwitchMLSender() sender;

    apply {
        well_formed.apply(hdr, meta, standard);
        admission.apply(hdr, meta, standard);
        passes = meta.passes_by;
        if (meta.admitted == 1) {
            place.apply(hdr, meta);
            switchml_step_t next;
            bit<1> may_begin = 0;
            if (hdr.switchml.kind == switchml_kind_t.UPDATE || hdr.switchml.kind == switchml_kind_t.QUERY) {
                may_begin = 1;  // a worker's first update may be lost
            }
            epoch.apply(hdr.switchml.job, hdr.switchml.epoch, may_begin, meta.epoch, meta.outdated);
            round.apply(hdr, meta);
            bitmap_checker.apply(hdr, meta);
            workers_counter.apply(hdr, meta);
            questions.apply(hdr, meta);
            next_step.apply(hdr, meta, next);
            vectors.apply(hdr, meta, next);
            exponents.apply(hdr.switchml.exponent, meta.operation, meta.cell);
            tag.apply(hdr.tag, meta.operation, meta.cell);
            pool.apply(hdr, meta);
            if (hdr.part.isValid() && next != switchml_step_t.DROP) {
                shape.apply(hdr, meta.whole);
            }
            sender.apply(hdr, meta, standard, next);
        } else if (meta.passes_by == 0) {
            mark_to_drop(standard);
        }
    }
}

// What leaves: a result's copies get their addresses.
control SwitchMLDeparture(inout headers_t hdr, inout switchml_metadata_t meta, inout standard_metadata_t standard) {
    SwitchMLAddresser() addresser;

    apply {
        if (standard.egress_rid != 0) {
            addresser.apply(hdr, meta, standard);
        }
    }
}

#endif
