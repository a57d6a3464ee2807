// Who may touch an aggregator, and what this switch is to a packet: level 0 in the rack of a remote worker, level 1 in the
// server's rack, transit elsewhere. Bits of a bitmap are believed only from where they belong, and how many there are is for
// the control plane to know.
#ifndef ATP_ADMISSION_P4
#define ATP_ADMISSION_P4
#include "headers.p4"
#include "metadata.p4"

control AtpAdmission(inout headers_t hdr, inout atp_metadata_t meta, inout standard_metadata_t standard) {
    counter(ATP_REASONS, CounterType.packets) rejected;

    action aggregate(bit<8> fan_in) {
        meta.role = role_t.AGGREGATE;
        meta.fan_in = fan_in;
    }

    action transit() {
        meta.role = role_t.TRANSIT;
    }

    // of a job that is aggregated elsewhere: this switch does not know its epoch, and the next one looks at it
    action pass_by() {
        meta.role = role_t.PASSER_BY;
    }

    // likewise, but for a result that is addressed to this switch, which passes it down
    action relay(group_t group, ip4_t own) {
        meta.group = group;
        meta.ways = 1;
        meta.role = role_t.PASSER_BY;
        if (hdr.ipv4.dst == own) {
            meta.role = role_t.RELAY;
        }
    }

    action reject() {
        meta.role = role_t.STRANGER;
    }

    // `ways` multicast groups start at `group`, and differ only in the uplink
    action from_server(group_t group, bit<16> ways, ip4_t own, bitmap_t rack, bit<8> fan_in) {
        meta.group = group;
        meta.ways = ways;
        meta.rack = rack;
        meta.fan_in = fan_in;
        meta.role = role_t.TRANSIT;
        if (hdr.ipv4.dst == own) {
            meta.role = role_t.ADDRESSEE;
        }
    }

    // a worker at its own port, or what a rack sends on for its workers; the destination is the server, by both of its addresses:
    // by another host's MAC it would be forwarded there
    table sources {
        key = {
            hdr.atp.job : exact;
            standard.ingress_port : exact;
            hdr.ethernet.src : exact;
            hdr.ethernet.dst : exact;
            hdr.ipv4.src : exact;
            hdr.ipv4.dst : exact;
            hdr.atp.edge_switch : exact;
            hdr.atp.bitmap1 : exact;
            hdr.atp.bitmap0 : ternary;
        }
        actions = { aggregate; transit; pass_by; reject; }
        size = 4096;
        default_action = reject();
    }

    // a server's packets, and the statuses of the switch next to it, which answers in its name
    table servers {
        key = {
            hdr.atp.job : exact;
            standard.ingress_port : exact;
            hdr.ethernet.src : exact;
            hdr.ipv4.src : exact;
        }
        actions = { from_server; relay; pass_by; reject; }
        size = 1024;
        default_action = reject();
    }

    // what switches confirm to a server comes from other switches alone: here are the ports that lead there
    table confirmations {
        key = { standard.ingress_port : exact; }
        actions = { transit; pass_by; reject; }
        size = MAX_PORTS;
        default_action = reject();
    }

    apply {
        bool well_formed = IS_WHOLE;
        if (hdr.vector.isValid()) {
            well_formed = well_formed && hdr.udp.length == BYTES_UDP + BYTES_ATP + BYTES_VECTOR;
        } else if (!hdr.largest.isValid()) {
            well_formed = well_formed && hdr.udp.length == BYTES_UDP + BYTES_ATP
                          && (hdr.atp.kind == atp_kind_t.RELEASE || hdr.atp.kind == atp_kind_t.RELEASED
                              || hdr.atp.kind == atp_kind_t.QUERY || hdr.atp.kind == atp_kind_t.STATUS);
        }
        if (!well_formed || hdr.atp.epoch == 0) {
            rejected.count(atp_reject_t.MALFORMED);
        } else if ((bit<32>)hdr.atp.index >= AGGREGATORS || hdr.atp.job >= MAX_JOBS) {
            rejected.count(atp_reject_t.INDEX);
        } else {
            if (hdr.atp.kind == atp_kind_t.GRADIENT || hdr.atp.kind == atp_kind_t.RAW || hdr.atp.kind == atp_kind_t.QUERY) {
                sources.apply();
            } else if (hdr.atp.kind == atp_kind_t.RELEASED) {
                confirmations.apply();
            } else {
                servers.apply();
            }
            if (meta.role == role_t.STRANGER) {
                rejected.count(atp_reject_t.SOURCE);
            }
        }
    }
}

#endif
