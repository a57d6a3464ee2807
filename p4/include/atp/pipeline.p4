// ATP's stages. A packet passes: admission, its group's epoch, its aggregator (with the decision what to do, and the integers), and
// the sender.
#ifndef ATP_PIPELINE_P4
#define ATP_PIPELINE_P4
#include "headers.p4"
#include "metadata.p4"
#include "../epoch.p4"
#include "../paths.p4"
#include "admission.p4"
#include "aggregator.p4"
#include "sender.p4"

// Whole or not, it is for ATP's port, or from there.
#define IS_ATP (hdr.atp.isValid() || (hdr.udp.isValid() && hdr.udp.dst == UDP_PORT_ATP))

control Atp(inout headers_t hdr, inout atp_metadata_t meta, inout standard_metadata_t standard, out bit<1> passes) {
    AtpAdmission() admission;
    Epoch() epoch;
    Aggregator() aggregator;
    AtpSender() sender;
    Paths() result_paths;

    apply {
        atp_step_t next = atp_step_t.ON;
        admission.apply(hdr, meta, standard);
        if (meta.role == role_t.STRANGER) {
            next = atp_step_t.DROP;
        } else if (meta.role == role_t.RELAY) {
            next = atp_step_t.SPREAD;
        } else if (meta.role != role_t.PASSER_BY) {
            epoch_t newest;
            bit<1> may_begin = 0;
            if (hdr.atp.kind == atp_kind_t.GRADIENT || hdr.atp.kind == atp_kind_t.RAW || hdr.atp.kind == atp_kind_t.QUERY) {
                may_begin = 1;
            }
            epoch.apply(hdr.atp.job, hdr.atp.epoch, may_begin, newest, meta.outdated);
            if (meta.outdated == 1 && hdr.atp.kind != atp_kind_t.RELEASE && hdr.atp.kind != atp_kind_t.RELEASED) {
                next = atp_step_t.DROP;  // but what an earlier group holds may still be released
            } else {
                aggregator.apply(hdr, meta, standard, next);
                sender.apply(hdr, meta, standard, next);
            }
        }
        if (next == atp_step_t.SPREAD) {
            bit<16> way;
            result_paths.apply(hdr, meta.ways, way);
            standard.mcast_grp = meta.group + way;
        } else if (next == atp_step_t.DROP) {
            mark_to_drop(standard);
        }
        passes = 0;
        if (next == atp_step_t.ON || next == atp_step_t.ON_ALONE || next == atp_step_t.ON_SUM) {
            passes = 1;
        }
    }
}

// What leaves: a result's copies get their addresses, and deep queues are told of.
control AtpDeparture(inout headers_t hdr, inout standard_metadata_t standard) {
    AtpAddresser() addresser;
    Congestion() congestion;

    apply {
        if (standard.egress_rid != 0) {
            addresser.apply(hdr, standard);
        }
        congestion.apply(hdr, standard);
    }
}

#endif
