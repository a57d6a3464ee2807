// SwitchML with its in-switch RDMA: workers write messages of several packets to the switch, whose pool has a slot for each packet, and
// the switch writes the sums into their memory. Between the two ends, everything is as over UDP (switchml.p4).
#include <core.p4>
#include <v1model.p4>
#include "include/switchml/configuration.p4"
#include "include/switchml/headers.p4"
#include "include/switchml/metadata.p4"
#include "include/switchml/roce_parser.p4"
#include "include/loss.p4"
#include "include/source_guard.p4"
#include "include/forwarder.p4"
#include "include/ecn.p4"
#include "include/epoch.p4"
#include "include/switchml/roce_receiver.p4"
#include "include/switchml/admission.p4"
#include "include/switchml/round.p4"
#include "include/switchml/bitmap_checker.p4"
#include "include/switchml/workers_counter.p4"
#include "include/switchml/questions.p4"
#include "include/switchml/next_step.p4"
#include "include/switchml/part.p4"
#include "include/switchml/roce_exponents.p4"
#include "include/tag.p4"
#include "include/switchml/pool.p4"
#include "include/switchml/sender.p4"
#include "include/switchml/roce_sender.p4"

control SwitchMLIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    Loss() loss_in;
    SourceGuard() source_guard;
    Forwarder() forwarder;
    QueuePair() queue_pair;
    Admission() admission;
    RoceReceiver() roce_receiver;
    Place() place;
    Epoch() epoch;
    Round() round;
    BitmapChecker() bitmap_checker;
    WorkersCounter() workers_counter;
    Questions() questions;
    NextStep() next_step;
    RoceExponents() exponents;
    Tag() tag;
    Pool() pool;
    Sender() sender;
    bit<1> own;

    action is_own() {
        own = 1;
    }

    table addresses {
        key = { hdr.ipv4.dst : exact; }
        actions = { is_own; NoAction; }
        size = 1;
        default_action = NoAction();
    }

    apply {
        bit<1> lost;
        own = 0;
        loss_in.apply(standard.ingress_port, lost);
        if (hdr.udp.isValid() && hdr.udp.dst == UDP_PORT_ROCE) {
            addresses.apply();
        }
        if (lost == 1) {
            mark_to_drop(standard);
        } else if (own == 1) {
            queue_pair.apply(hdr, meta, standard);
            if (meta.well_formed == 1) {
                admission.apply(hdr, meta, standard);
            }
            if (meta.admitted == 1) {
                roce_receiver.apply(hdr, meta);
            }
            if (meta.in_sequence == 1) {
                step_t next;
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
                    if (hdr.switchml.kind == kind_t.QUERY && next == step_t.REPLY) {
                        next = step_t.DROP;  // a result is sent again as a message, when its worker's comes again
                    }
                    meta.on_vector = meta.operation;
                    exponents.apply(hdr, meta.operation, meta.cell);
                    tag.apply(hdr.tag, meta.operation, meta.cell);
                    pool.apply(hdr, meta);
                    meta.next_link = meta.link;
                    if (next == step_t.UP) {
                        meta.next_link = meta.toward;
                    }
                    sender.apply(hdr, meta, standard, next);
                }
            } else {
                mark_to_drop(standard);
            }
        } else {
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
    RoceSender() roce_sender;
    Ecn() ecn;
    Loss() loss_out;

    apply {
        bit<1> lost;
        if (meta.admitted == 1) {
            roce_sender.apply(hdr, meta, standard);
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

V1Switch(RoceParser(), RoceVerify(), SwitchMLIngress(), SwitchMLEgress(), RoceCompute(), RoceDeparser()) main;
