// ATP (Lao et al., NSDI '21): best-effort aggregation for many jobs and racks. Aggregators are allocated packet by packet,
// by the hash that a worker puts into it; what finds none, or comes too late, is added at the parameter server.
//
// A packet passes: loss of its link, admission, its group's epoch, its aggregator (with the decision what to do, and the
// integers), and the sender. Everything that is not ATP's is forwarded, if it comes from whom it says.
#include <core.p4>
#include <v1model.p4>
#include "include/atp/configuration.p4"
#include "include/atp/headers.p4"
#include "include/atp/metadata.p4"
#include "include/atp/parser.p4"
#include "include/loss.p4"
#include "include/source_guard.p4"
#include "include/forwarder.p4"
#include "include/ecn.p4"
#include "include/epoch.p4"
#include "include/atp/admission.p4"
#include "include/atp/aggregator.p4"
#include "include/atp/sender.p4"

control AtpIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    Loss() loss_in;
    SourceGuard() source_guard;
    Forwarder() forwarder;
    Admission() admission;
    Epoch() epoch;
    Aggregator() aggregator;
    Sender() sender;
    Paths() result_paths;

    apply {
        bit<1> lost;
        step_t next = step_t.ON;
        loss_in.apply(standard.ingress_port, lost);
        if (lost == 1) {
            next = step_t.DROP;
        } else if (hdr.atp.isValid() || (hdr.udp.isValid() && hdr.udp.dst == UDP_PORT_ATP)) {
            admission.apply(hdr, meta, standard);
            if (meta.role == role_t.STRANGER) {
                next = step_t.DROP;
            } else if (meta.role == role_t.RELAY) {
                next = step_t.SPREAD;
            } else if (meta.role != role_t.PASSER_BY) {
                epoch_t newest;
                bit<1> may_begin = 0;
                if (hdr.atp.kind == kind_t.GRADIENT || hdr.atp.kind == kind_t.RAW || hdr.atp.kind == kind_t.QUERY) {
                    may_begin = 1;
                }
                epoch.apply(hdr.atp.job, hdr.atp.epoch, may_begin, newest, meta.outdated);
                if (meta.outdated == 1 && hdr.atp.kind != kind_t.RELEASE && hdr.atp.kind != kind_t.RELEASED) {
                    next = step_t.DROP;  // but what an earlier group holds may still be released
                } else {
                    aggregator.apply(hdr, meta, standard, next);
                    sender.apply(hdr, meta, standard, next);
                }
            }
            if (next == step_t.SPREAD) {
                bit<16> way;
                result_paths.apply(hdr, meta.ways, way);
                standard.mcast_grp = meta.group + way;
            }
        } else {
            bit<1> refused;
            source_guard.apply(hdr, standard, refused);
            if (refused == 1) {
                next = step_t.DROP;
            }
        }

        if (next == step_t.DROP) {
            mark_to_drop(standard);
        } else if (next == step_t.ON || next == step_t.ON_ALONE || next == step_t.ON_SUM) {
            forwarder.apply(hdr, standard);
        }
    }
}

control AtpEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    Addresser() addresser;
    Congestion() congestion;
    Ecn() ecn;
    Loss() loss_out;

    apply {
        bit<1> lost;
        if (standard.egress_rid != 0 && standard.egress_port == standard.ingress_port) {
            mark_to_drop(standard);  // a flooded packet does not go back where it came from
        } else if (hdr.atp.isValid()) {
            if (standard.egress_rid != 0) {
                addresser.apply(hdr, standard);
            }
            congestion.apply(hdr, standard);
        }
        ecn.apply(hdr, standard);
        loss_out.apply(standard.egress_port, lost);
        if (lost == 1) {
            mark_to_drop(standard);
        }
    }
}

V1Switch(AtpParser(), AtpVerify(), AtpIngress(), AtpEgress(), AtpCompute(), AtpDeparser()) main;
