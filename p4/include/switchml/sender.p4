// Where a packet goes after its cell is up to date, and from whom it then comes.
#ifndef SWITCHML_SENDER_P4
#define SWITCHML_SENDER_P4
#include "headers.p4"
#include "metadata.p4"
#include "next_step.p4"
#include "part.p4"
#include "../turn_round.p4"

control SwitchMLSender(inout headers_t hdr, inout switchml_metadata_t meta, inout standard_metadata_t standard, in switchml_step_t next) {
    TurnRound() turn_round;
    counter(2 * MAX_JOBS, CounterType.packets) broadcasts;     // by job, and whether its tree has a parent here
    counter(POOL_CELLS, CounterType.packets) retransmissions;  // results sent again to one worker, and sums sent up again
    counter(POOL_CELLS, CounterType.packets) drops;            // absorbed or ignored

    action to_parent(port_t port, worker_t number, mac_t mac, ip4_t ip, mac_t parent_mac, ip4_t parent_ip) {
        standard.egress_spec = port;
        hdr.switchml.worker = number;  // of this switch at its parent
        hdr.ethernet.src = mac;
        hdr.ethernet.dst = parent_mac;
        hdr.ipv4.src = ip;
        hdr.ipv4.dst = parent_ip;
        hdr.udp.src = UDP_PORT_SWITCHML;
        hdr.udp.dst = UDP_PORT_SWITCHML;
        hdr.udp.checksum = 0;
        hdr.ipv4.ttl = 64;
    }

    action no_parent() {
        mark_to_drop(standard);
    }

    table uplinks {
        key = {
            hdr.switchml.job : exact;
            meta.toward : exact;
        }
        actions = { to_parent; no_parent; }
        size = MAX_JOBS * MAX_WORKERS;
        default_action = no_parent();
    }

    action become_status() {
        hdr.switchml.kind = switchml_kind_t.STATUS;
        hdr.switchml.epoch = meta.epoch;
        hdr.switchml.mark = 0;
        hdr.status.seen = meta.seen;
    }

    apply {
        if (next == switchml_step_t.BROADCAST) {
            turn_round.apply(hdr);
            if (hdr.switchml.kind == switchml_kind_t.STATUS) {
                hdr.switchml.mark = hdr.switchml.mark + 1;
            } else {
                hdr.switchml.kind = switchml_kind_t.RESULT;
            }
            standard.mcast_grp = meta.group;
            broadcasts.count(2 * (bit<32>)hdr.switchml.job + (bit<32>)meta.has_parent);
        } else if (next == switchml_step_t.UP) {
            uplinks.apply();
            if (hdr.switchml.kind == switchml_kind_t.STATUS) {
                hdr.switchml.kind = switchml_kind_t.UPDATE;
            }
            if (meta.operation == operation_t.READ) {
                retransmissions.count(meta.cell);
            }
        } else if (next == switchml_step_t.REPLY || next == switchml_step_t.STATUS) {
            turn_round.apply(hdr);
            standard.egress_spec = standard.ingress_port;
            if (next == switchml_step_t.STATUS) {
                become_status();
            } else {
                hdr.switchml.kind = switchml_kind_t.RESULT;
                retransmissions.count(meta.cell);
            }
        } else {
            mark_to_drop(standard);
            drops.count(meta.cell);
        }
    }
}

// Each copy of a broadcast is addressed to its worker. The replication id is the worker's number plus one.
control SwitchMLAddresser(inout headers_t hdr, in switchml_metadata_t meta, inout standard_metadata_t standard) {
    Whole() whole;
    Shape() shape;
    counter(MAX_JOBS * MAX_WORKERS, CounterType.packets) sent;  // by job and worker

    action to_worker(mac_t mac, ip4_t ip, udp_port_t port) {
        hdr.ethernet.dst = mac;
        hdr.ipv4.dst = ip;
        hdr.udp.dst = port;
        hdr.switchml.worker = (worker_t)(standard.egress_rid - 1);
        sent.count((bit<32>)hdr.switchml.job * MAX_WORKERS + (bit<32>)(standard.egress_rid - 1));
    }

    action to_nobody() {
        mark_to_drop(standard);
    }

    table destinations {
        key = {
            hdr.switchml.job : exact;
            standard.egress_rid : exact;
        }
        actions = { to_worker; to_nobody; }
        size = MAX_JOBS * MAX_WORKERS;
        default_action = to_nobody();
    }

    apply {
        destinations.apply();
        if (hdr.part.isValid()) {
            bit<1> has_vector;
            whole.apply(meta, switchml_kind_t.RESULT, hdr.switchml.worker, has_vector);
            shape.apply(hdr, has_vector);
        }
    }
}

#endif
