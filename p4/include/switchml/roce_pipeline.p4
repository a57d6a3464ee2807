// SwitchML's stages over RoCE. Behind the queue pair that a packet came by, they are those over UDP (pipeline.p4), but for exponents,
// which a message has at its end.
#ifndef ROCE_PIPELINE_P4
#define ROCE_PIPELINE_P4
#include "headers.p4"
#include "metadata.p4"
#include "../epoch.p4"
#include "roce_receiver.p4"
#include "admission.p4"
#include "round.p4"
#include "bitmap_checker.p4"
#include "workers_counter.p4"
#include "questions.p4"
#include "next_step.p4"
#include "part.p4"
#include "roce_exponents.p4"
#include "../tag.p4"
#include "pool.p4"
#include "sender.p4"
#include "roce_sender.p4"

control RoceSwitchML(inout headers_t hdr, inout switchml_metadata_t meta, inout standard_metadata_t standard) {
    QueuePair() queue_pair;
    SwitchMLAdmission() admission;
    RoceReceiver() roce_receiver;
    Place() place;
    Epoch() epoch;
    Round() round;
    BitmapChecker() bitmap_checker;
    WorkersCounter() workers_counter;
    Questions() questions;
    SwitchMLNextStep() next_step;
    RoceExponents() exponents;
    Tag(POOL_CELLS) tag;
    Pool() pool;
    SwitchMLSender() sender;

    apply {
        queue_pair.apply(hdr, meta, standard);
        if (meta.well_formed == 1) {
            admission.apply(hdr, meta, standard);
        }
        if (meta.admitted == 1) {
            roce_receiver.apply(hdr, meta);
        }
        if (meta.in_sequence == 1) {
            switchml_step_t next;
            bit<1> may_begin = 0;
            if (meta.link != PARENT) {
                may_begin = 1;  // a worker's first update may be lost
            }
            place.apply(hdr, meta);
            epoch.apply(hdr.switchml.job, hdr.switchml.epoch, may_begin, meta.epoch, meta.outdated);
            if (hdr.connect.isValid() && meta.outdated == 0) {
                standard.egress_spec = standard.ingress_port;
                meta.next_link = meta.link;
            } else {
                round.apply(hdr, meta);
                bitmap_checker.apply(hdr, meta);
                workers_counter.apply(hdr, meta);
                questions.apply(hdr, meta);
                next_step.apply(hdr, meta, next);
                if (hdr.switchml.kind == switchml_kind_t.QUERY && next == switchml_step_t.REPLY) {
                    next = switchml_step_t.DROP;  // a result is sent again as a message, when its worker's comes again
                }
                meta.on_vector = meta.operation;
                exponents.apply(hdr, meta.operation, meta.cell);
                tag.apply(hdr.tag, meta.operation, meta.cell);
                pool.apply(hdr, meta);
                meta.next_link = meta.link;
                if (next == switchml_step_t.UP) {
                    meta.next_link = meta.toward;
                }
                sender.apply(hdr, meta, standard, next);
            }
        } else {
            mark_to_drop(standard);
        }
    }
}

#endif
