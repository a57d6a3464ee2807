// Lab 5: slots that lose nothing. The decision is a table; every version has registers of its own.
#include <core.p4>
#include <v1model.p4>

const bit<32> POOL = 256;  // slots of each version

// What the lanes do with a packet's integers
const bit<2> STORE = 1;  // the first vector of a sum replaces what was there
const bit<2> ADD   = 2;
const bit<2> FETCH = 3;  // seen before, complete: the packet gets the sum

struct metadata_t {
    bit<8>  workers;
    bit<32> slot;
    bit<1>  version;
    bit<8>  count;     // vectors in this version's sum so far; 0 if it is complete or empty
    bit<1>  seen;
    bit<1>  first;     // no vector is there
    bit<1>  last;      // this one would make it complete
    bit<2>  op;        // for the lanes
}

#include "headers.p4"

control Lane(inout bit<32> value, in metadata_t meta) {
    register<bit<32>>(POOL) sum0;
    register<bit<32>>(POOL) sum1;

    apply {
        bit<32> before;
        if (meta.version == 0) {
            sum0.read(before, meta.slot);
        } else {
            sum1.read(before, meta.slot);
        }
        if (meta.op == ADD) {
            value = before + value;
        } else if (meta.op == FETCH) {
            value = before;
        }
        if (meta.op == ADD || meta.op == STORE) {
            if (meta.version == 0) {
                sum0.write(meta.slot, value);
            } else {
                sum1.write(meta.slot, value);
            }
        }
    }
}

control LossIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<8>>(POOL) arrived0;
    register<bit<8>>(POOL) arrived1;
    register<bit<16>>(POOL) seen0;
    register<bit<16>>(POOL) seen1;
    bit<16> mine;
    bit<16> here;
    bit<16> there;
    Lane() lane0;  Lane() lane1;  Lane() lane2;  Lane() lane3;  Lane() lane4;  Lane() lane5;  Lane() lane6;  Lane() lane7;
    Lane() lane8;  Lane() lane9;  Lane() lane10; Lane() lane11; Lane() lane12; Lane() lane13; Lane() lane14; Lane() lane15;

    action set_workers(bit<8> workers) {
        meta.workers = workers;
    }

    table job {
        actions = { set_workers; }
        default_action = set_workers(0);
    }

    action label_result() {
        hdr.aggregation.kind = RESULT;
        hdr.ethernet.src = SWITCH;
    }

    action wait_for_more(bit<2> op) {  // counted; nothing leaves
        meta.op = op;
        meta.count = meta.count + 1;
        mark_to_drop(standard);
    }

    action complete(bit<2> op) {       // counted; everybody gets the sum
        meta.op = op;
        meta.count = 0;
        label_result();
        hdr.ethernet.dst = EVERYBODY;
        standard.mcast_grp = 1;
    }

    action again() {                   // not counted; the sender alone gets the sum
        meta.op = FETCH;
        label_result();
        hdr.ethernet.dst = hdr.ethernet.src;
        standard.egress_spec = standard.ingress_port;
    }

    action ignore() {
        mark_to_drop(standard);
    }

    table decision {
        key = { meta.seen: exact; meta.first: exact; meta.last: exact; }
        actions = { wait_for_more; complete; again; ignore; }
        const default_action = ignore();
        const entries = {
            (0, 1, 0): wait_for_more(STORE);
            (0, 0, 0): wait_for_more(ADD);
            (0, 1, 1): complete(STORE);
            (0, 0, 1): complete(ADD);
            (1, 1, 0): again();
            (1, 1, 1): again();
            (1, 0, 0): ignore();
            (1, 0, 1): ignore();
        }
    }

    apply {
        if (hdr.aggregation.isValid() && hdr.aggregation.kind == UPDATE && (bit<32>)hdr.aggregation.slot < POOL
                && hdr.aggregation.version < 2) {
            job.apply();
            meta.slot = (bit<32>)hdr.aggregation.slot;
            meta.version = hdr.aggregation.version[0:0];
            mine = 16w1 << hdr.aggregation.worker;
            if (meta.version == 0) {
                arrived0.read(meta.count, meta.slot);
                seen0.read(here, meta.slot);
                seen1.read(there, meta.slot);
            } else {
                arrived1.read(meta.count, meta.slot);
                seen1.read(here, meta.slot);
                seen0.read(there, meta.slot);
            }
            meta.seen = (bit<1>)((here & mine) != 0);
            meta.first = (bit<1>)(meta.count == 0);
            meta.last = (bit<1>)(meta.count + 1 == meta.workers);
            decision.apply();
            lane0.apply(hdr.values.v0, meta);    lane1.apply(hdr.values.v1, meta);
            lane2.apply(hdr.values.v2, meta);    lane3.apply(hdr.values.v3, meta);
            lane4.apply(hdr.values.v4, meta);    lane5.apply(hdr.values.v5, meta);
            lane6.apply(hdr.values.v6, meta);    lane7.apply(hdr.values.v7, meta);
            lane8.apply(hdr.values.v8, meta);    lane9.apply(hdr.values.v9, meta);
            lane10.apply(hdr.values.v10, meta);  lane11.apply(hdr.values.v11, meta);
            lane12.apply(hdr.values.v12, meta);  lane13.apply(hdr.values.v13, meta);
            lane14.apply(hdr.values.v14, meta);  lane15.apply(hdr.values.v15, meta);
            here = here | mine;
            there = there & ~mine;
            if (meta.seen == 0) {
                if (meta.version == 0) {
                    arrived0.write(meta.slot, meta.count);
                    seen0.write(meta.slot, here);
                    seen1.write(meta.slot, there);
                } else {
                    arrived1.write(meta.slot, meta.count);
                    seen1.write(meta.slot, here);
                    seen0.write(meta.slot, there);
                }
            }
        } else {
            mark_to_drop(standard);
        }
    }
}

V1Switch(AggregationParser(), NoVerifyChecksum(), LossIngress(), NoEgress(), NoComputeChecksum(), AggregationDeparser()) main;
