// What a packet says of itself once its aggregator is up to date, and where it goes if it is not simply forwarded.
#ifndef ATP_SENDER_P4
#define ATP_SENDER_P4
#include "headers.p4"
#include "metadata.p4"
#include "next_step.p4"
#include "../turn_round.p4"

control AtpSender(inout headers_t hdr, inout atp_metadata_t meta, inout standard_metadata_t standard, in atp_step_t next) {
    TurnRound() turn_round;

    // What leaves level 0 is told from what leaves level 1 by its bitmaps: a complete rack is a bit of bitmap1 alone.
    action leave_level() {
        hdr.atp.edge_switch = 1;
    }

    // what is lacking joins the aggregator of whoever says so
    action become_status() {
        hdr.atp.kind = atp_kind_t.STATUS;
        hdr.atp.resend = 1;
        hdr.atp.asked = 1;
        if (hdr.atp.edge_switch == 0) {
            hdr.atp.bitmap0 = meta.bitmap;
        } else {
            hdr.atp.bitmap1 = meta.bitmap;
        }
    }

    action become_gradient() {
        hdr.atp.kind = atp_kind_t.GRADIENT;
        hdr.atp.asked = 1;
        hdr.atp.ecn = hdr.atp.ecn | meta.ecn;
        hdr.atp.bitmap0 = 0;
        hdr.atp.bitmap1 = meta.bitmap;
        if (meta.rack != 0) {
            hdr.atp.bitmap1 = meta.rack;
            if (meta.complete == 0) {
                hdr.atp.bitmap0 = meta.bitmap;
            }
        }
        leave_level();
    }

    apply {
        hdr.udp.checksum = 0;
        if (next == atp_step_t.ON_SUM) {
            hdr.atp.ecn = hdr.atp.ecn | meta.ecn;
            if (hdr.atp.kind == atp_kind_t.GRADIENT && hdr.atp.resend == 0) {
                hdr.atp.asked = hdr.atp.asked | meta.again;
            }
            if (hdr.atp.edge_switch == 1) {
                hdr.atp.bitmap1 = meta.bitmap;
            } else if (meta.complete == 1) {
                hdr.atp.bitmap0 = 0;
            } else {
                hdr.atp.bitmap0 = meta.bitmap;
            }
            leave_level();
        } else if (next == atp_step_t.ON_ALONE) {
            if (hdr.atp.edge_switch == 0 && meta.fan_in == 1) {
                hdr.atp.bitmap0 = 0;
            }
            leave_level();
        }

        if (next == atp_step_t.RETURN) {
            hdr.atp.kind = atp_kind_t.RELEASED;
            turn_round.apply(hdr);
            standard.egress_spec = standard.ingress_port;
        } else if (next == atp_step_t.ANSWER) {
            become_status();
            turn_round.apply(hdr);
            standard.egress_spec = standard.ingress_port;
        } else if (next == atp_step_t.REPAIR) {
            become_gradient();
            turn_round.apply(hdr);
            standard.egress_spec = standard.ingress_port;
        }
    }
}

// Each copy of a result is addressed to whom it goes: a worker, or the next switch. The replication id tells which.
control AtpAddresser(inout headers_t hdr, inout standard_metadata_t standard) {
    counter(MAX_JOBS * MAX_PORTS, CounterType.packets) sent;  // copies, by job and port

    action to_child(mac_t mac, ip4_t ip) {
        hdr.ethernet.dst = mac;
        hdr.ipv4.dst = ip;
        hdr.ipv4.ttl = 64;
        sent.count((bit<32>)hdr.atp.job * MAX_PORTS + (bit<32>)standard.egress_port);
    }

    action to_nobody() {
        mark_to_drop(standard);
    }

    table destinations {
        key = {
            hdr.atp.job : exact;
            standard.egress_rid : exact;
        }
        actions = { to_child; to_nobody; }
        size = MAX_JOBS * MAX_PORTS;
        default_action = to_nobody();
    }

    apply {
        destinations.apply();
    }
}

// Explicit congestion notification: a packet that found a deep queue says so, whichever way it goes.
control Congestion(inout headers_t hdr, inout standard_metadata_t standard) {
    register<bit<19>>(1) deep;  // packets in the queue, this one not counted, from which it is deep; 0: never

    apply {
        bit<19> limit;
        deep.read(limit, 0);
        if (limit != 0 && (bit<19>)standard.enq_qdepth >= limit) {
            hdr.atp.ecn = 1;
        }
    }
}

#endif
