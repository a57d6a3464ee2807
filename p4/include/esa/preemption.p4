// Pre-emption (Wang et al., "Efficient Data-Plane Memory Scheduling for In-Network Aggregation", 2022; our reading of it).
// A gradient that finds its aggregator taken takes it over, if it is more urgent than what is there. What was gathered there
// leaves in its place, to the server; a sum that has left already is overwritten. Whoever is not urgent enough goes on alone,
// and halves the priority of what it met: an aggregator for which workers are late is not held for long.
//
// What comes later of an evicted chunk finds its aggregator refused, as long as no other chunk was turned away there since, and
// meets the rest at the server. Else it may claim again, and queries bring both parts together.
#ifndef PREEMPTION_P4
#define PREEMPTION_P4
#include "../atp/headers.p4"
#include "../atp/metadata.p4"
#include "../atp/next_step.p4"

const bit<3> DO_NOT_FRAGMENT = 2;  // as hosts send

// What an aggregator holds before a packet
struct held_t {
    owner_t owner;
    bitmap_t bitmap;
    bit<1> ecn;
    bit<1> again;
}

// Of the packet that claimed it
struct claim_t {
    priority_t priority;
    bit<1> edge_switch;
    bitmap_t bitmap1;
    mac_t mac_src;
    mac_t mac_dst;
    ip4_t ip_src;
    ip4_t ip_dst;
}

control Preemption(inout headers_t hdr, inout atp_metadata_t meta, inout atp_step_t next, out claim_t claim) {
    counter(MAX_JOBS, CounterType.packets) preemptions;  // by the job that takes over
    register<priority_t>(AGGREGATORS) priority;
    register<bit<1>>(AGGREGATORS) whole;        // its sum has left
    register<bit<1>>(AGGREGATORS) edge_switch;
    register<bitmap_t>(AGGREGATORS) bitmap1;
    register<mac_t>(AGGREGATORS) mac_src;
    register<mac_t>(AGGREGATORS) mac_dst;
    register<ip4_t>(AGGREGATORS) ip_src;
    register<ip4_t>(AGGREGATORS) ip_dst;

    apply {
        bit<32> cell = (bit<32>)hdr.atp.index;
        bit<1> has_left;
        priority.read(claim.priority, cell);
        whole.read(has_left, cell);
        edge_switch.read(claim.edge_switch, cell);
        bitmap1.read(claim.bitmap1, cell);
        mac_src.read(claim.mac_src, cell);
        mac_dst.read(claim.mac_dst, cell);
        ip_src.read(claim.ip_src, cell);
        ip_dst.read(claim.ip_dst, cell);

        bool would_claim = hdr.atp.kind == atp_kind_t.GRADIENT && meta.role == role_t.AGGREGATE && hdr.atp.resend == 0
                           && meta.mergeable == 1 && meta.complete == 0 && meta.refused == 0 && meta.closed == 0;
        if (would_claim && meta.held == 1 && meta.own == 0 && meta.bare == 0 && hdr.vector.isValid()) {
            if (hdr.atp.next_index <= claim.priority) {
                priority.write(cell, claim.priority >> 1);
            } else {
                preemptions.count((bit<32>)hdr.atp.job);
                meta.change = change_t.CLAIM;
                if (has_left == 1) {
                    next = atp_step_t.DROP;
                    meta.operation = operation_t.STORE;
                } else {
                    next = atp_step_t.ON;
                    meta.operation = operation_t.EXCHANGE;
                }
            }
        }

        if (meta.change == change_t.CLAIM) {
            priority.write(cell, hdr.atp.next_index);
            whole.write(cell, 0);
            edge_switch.write(cell, hdr.atp.edge_switch);
            bitmap1.write(cell, hdr.atp.bitmap1);
            mac_src.write(cell, hdr.ethernet.src);
            mac_dst.write(cell, hdr.ethernet.dst);
            ip_src.write(cell, hdr.ipv4.src);
            ip_dst.write(cell, hdr.ipv4.dst);
        } else if (meta.change == change_t.ADD && meta.complete == 1) {
            whole.write(cell, 1);
        }
        if (next == atp_step_t.REPAIR) {
            hdr.atp.next_index = claim.priority;
        }
    }
}

// The packet becomes one with what was gathered for another chunk; its vector is that already. Nothing of its sender is left.
control Eviction(inout headers_t hdr, in held_t held, in claim_t claim) {
    apply {
        hdr.ethernet.src = claim.mac_src;
        hdr.ethernet.dst = claim.mac_dst;
        hdr.ipv4.src = claim.ip_src;
        hdr.ipv4.dst = claim.ip_dst;
        hdr.ipv4.tos = 0;
        hdr.ipv4.flags = DO_NOT_FRAGMENT;
        hdr.ipv4.ttl = 64;
        hdr.udp.src = UDP_PORT_ATP;
        hdr.atp.epoch = held.owner[63:32];
        hdr.atp.job = held.owner[31:24];
        hdr.atp.sequence = held.owner[23:0];
        hdr.atp.bitmap0 = 0;
        hdr.atp.bitmap1 = held.bitmap;
        if (claim.edge_switch == 0) {
            hdr.atp.bitmap0 = held.bitmap;
            hdr.atp.bitmap1 = claim.bitmap1;
        }
        hdr.atp.edge_switch = 1;
        hdr.atp.collision = 1;
        hdr.atp.asked = held.again;
        hdr.atp.ecn = held.ecn;
        hdr.atp.next_index = claim.priority;
    }
}

#endif
