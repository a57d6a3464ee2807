// Lab 12: sums for the worker that owns them, and parameters for all others. It is lab 4's program; you write what is marked TODO.
#include <core.p4>
#include <v1model.p4>

const bit<32> POOL = 256;  // slots
const bit<8> FREE = 3;        // kinds: a slot is free, for those who get no sum,
const bit<8> PARAMETERS = 4;  // and what an owner sends to all others

struct metadata_t {
    bit<8>  workers;  // how many vectors make a sum
    bit<1>  first;    // this one is the first of them
    bit<32> slot;     // the cell of every register
    bit<9>  owner;    // the port of the worker that the vector is for
}

#include "headers.p4"

// One integer of each slot's vector, in each of 16 instances of this control
control Lane(inout bit<32> value, in metadata_t meta) {
    register<bit<32>>(POOL) sum;

    apply {
        if (meta.first == 0) {
            bit<32> before;
            sum.read(before, meta.slot);
            value = before + value;
        }
        sum.write(meta.slot, value);
    }
}

control ShardIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<8>>(POOL) arrived;
    Lane() lane0;  Lane() lane1;  Lane() lane2;  Lane() lane3;  Lane() lane4;  Lane() lane5;  Lane() lane6;  Lane() lane7;
    Lane() lane8;  Lane() lane9;  Lane() lane10; Lane() lane11; Lane() lane12; Lane() lane13; Lane() lane14; Lane() lane15;

    // The control plane says how many workers there are: table_set_default job set_workers 4
    action set_workers(bit<8> workers) {
        meta.workers = workers;
    }

    table job {
        actions = { set_workers; }
        default_action = set_workers(0);
    }

    // The control plane says where workers are: table_add owners set_owner 02:00:00:00:00:01 => 1
    action set_owner(bit<9> port) {
        meta.owner = port;
    }

    table owners {
        key = { hdr.ethernet.dst : exact; }
        actions = { set_owner; NoAction; }
        size = 16;
        default_action = NoAction();
    }

    action send_result() {
        hdr.aggregation.kind = RESULT;
        hdr.ethernet.src = SWITCH;
        hdr.ethernet.dst = EVERYBODY;  // TODO 1: the owner's address stays
        standard.mcast_grp = 1;
    }

    apply {
        // TODO 3: PARAMETERS go to group 1
        if (hdr.aggregation.isValid() && hdr.aggregation.kind == UPDATE && (bit<32>)hdr.aggregation.slot < POOL
            && owners.apply().hit) {
            job.apply();
            bit<8> n;
            meta.slot = (bit<32>)hdr.aggregation.slot;
            arrived.read(n, meta.slot);
            meta.first = (bit<1>)(n == 0);
            lane0.apply(hdr.values.v0, meta);    lane1.apply(hdr.values.v1, meta);
            lane2.apply(hdr.values.v2, meta);    lane3.apply(hdr.values.v3, meta);
            lane4.apply(hdr.values.v4, meta);    lane5.apply(hdr.values.v5, meta);
            lane6.apply(hdr.values.v6, meta);    lane7.apply(hdr.values.v7, meta);
            lane8.apply(hdr.values.v8, meta);    lane9.apply(hdr.values.v9, meta);
            lane10.apply(hdr.values.v10, meta);  lane11.apply(hdr.values.v11, meta);
            lane12.apply(hdr.values.v12, meta);  lane13.apply(hdr.values.v13, meta);
            lane14.apply(hdr.values.v14, meta);  lane15.apply(hdr.values.v15, meta);
            n = n + 1;
            if (n == meta.workers) {
                n = 0;
                send_result();
            } else {
                mark_to_drop(standard);
            }
            arrived.write(meta.slot, n);
        } else {
            mark_to_drop(standard);
        }
    }
}

// Every copy of a packet for group 1, on its way to standard.egress_port
control ShardEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        // TODO 2: the owner's copy of a sum is the RESULT; all others are FREE, without values
        // TODO 3: PARAMETERS do not go back to where they came from
    }
}

V1Switch(AggregationParser(), NoVerifyChecksum(), ShardIngress(), ShardEgress(), NoComputeChecksum(), AggregationDeparser()) main;
