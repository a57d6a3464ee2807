// SwitchML (Sapio et al., NSDI '21): streaming aggregation in a pool of slots with a shadow copy, for several jobs and
// for any tree of switches, with loss injected on its links.
//
// A worker's packet passes: loss of its link, admission, its group's epoch, the round it belongs to, the bitmap of who is
// in, the decision what to do, the exponent and the integers of its cell, and the sender. Everything else is forwarded, if
// it comes from whom it says.
#include <core.p4>
#include <v1model.p4>
#include "include/switchml/configuration.p4"
#include "include/switchml/headers.p4"
#include "include/switchml/metadata.p4"
#include "include/switchml/parser.p4"
#include "include/loss.p4"
#include "include/source_guard.p4"
#include "include/forwarder.p4"
#include "include/ecn.p4"
#include "include/epoch.p4"
#include "include/switchml/well_formed.p4"
#include "include/switchml/admission.p4"
#include "include/switchml/round.p4"
#include "include/switchml/bitmap_checker.p4"
#include "include/switchml/workers_counter.p4"
#include "include/switchml/questions.p4"
#include "include/switchml/next_step.p4"
#include "include/switchml/part.p4"
#include "include/exponents.p4"
#include "include/tag.p4"
#include "include/switchml/pool.p4"
#include "include/switchml/sender.p4"

control SwitchMLIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    Loss() loss_in;
    SourceGuard() source_guard;
    Forwarder() forwarder;
    WellFormed() well_formed;
    Admission() admission;
    Place() place;
    Epoch() epoch;
    Round() round;
    BitmapChecker() bitmap_checker;
    WorkersCounter() workers_counter;
    Questions() questions;
    NextStep() next_step;
    Vectors() vectors;
    Exponents() exponents;
    Tag() tag;
    Pool() pool;
    Shape() shape;
    Sender() sender;

    apply {
        bit<1> lost;
        bit<1> ordinary = 1;
        loss_in.apply(standard.ingress_port, lost);
        if (lost == 1) {
            ordinary = 0;
            mark_to_drop(standard);
        } else if (hdr.switchml.isValid() || (hdr.udp.isValid() && hdr.udp.dst == UDP_PORT_SWITCHML)) {
            well_formed.apply(hdr, meta, standard);
            admission.apply(hdr, meta, standard);
            if (meta.admitted == 1) {
                place.apply(hdr, meta);
                step_t next;
                bit<1> may_begin = 0;
                if (hdr.switchml.kind == kind_t.UPDATE || hdr.switchml.kind == kind_t.QUERY) {
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
                if (hdr.part.isValid() && next != step_t.DROP) {
                    shape.apply(hdr, meta.whole);
                }
                sender.apply(hdr, meta, standard, next);
            } else if (meta.passes_by == 0) {
                mark_to_drop(standard);
            }
            ordinary = meta.passes_by;
        }
        if (ordinary == 1) {
            bit<1> refused;
            source_guard.apply(hdr, standard, refused);
            if (refused == 1) {
                mark_to_drop(standard);
            } else {
                forwarder.apply(hdr, standard);
            }
        }
    }
}

control SwitchMLEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    Addresser() addresser;
    Ecn() ecn;
    Loss() loss_out;

    apply {
        bit<1> lost;
        if (hdr.switchml.isValid() && meta.passes_by == 0) {
            if (standard.egress_rid != 0) {
                addresser.apply(hdr, meta, standard);
            }
        } else if (standard.egress_rid != 0 && standard.egress_port == standard.ingress_port) {
            mark_to_drop(standard);  // a flooded packet does not go back where it came from
        }
        ecn.apply(hdr, standard);
        loss_out.apply(standard.egress_port, lost);
        if (lost == 1) {
            mark_to_drop(standard);
        }
    }
}

V1Switch(SwitchMLParser(), SwitchMLVerify(), SwitchMLIngress(), SwitchMLEgress(), SwitchMLCompute(), SwitchMLDeparser()) main;
