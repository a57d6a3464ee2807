// Lab 3: a switch that adds the vectors of n workers and sends all of them the sum. You write what is marked TODO.
#include <core.p4>
#include <v1model.p4>

struct metadata_t {
    bit<8> workers;  // how many vectors make a sum
    bit<1> first;    // this one is the first of them
}

#include "headers.p4"

// One integer of the vector, in each of 16 instances of this control
control Lane(inout bit<32> value, in metadata_t meta) {
    // TODO 1: a register for the sum so far

    apply {
        // TODO 2: add the value to the sum so far, unless it is the first; keep the sum, and put it into the packet
    }
}

control SumIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    // TODO 3: a register that counts the vectors that have arrived
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

    action send_result() {
        hdr.aggregation.kind = RESULT;
        hdr.ethernet.src = SWITCH;
        hdr.ethernet.dst = EVERYBODY;
        // TODO 5: a copy to every port of multicast group 1
    }

    apply {
        if (hdr.aggregation.isValid() && hdr.aggregation.kind == UPDATE) {
            job.apply();
            // TODO 3: is this the first vector of a sum? Then meta.first must be 1
            lane0.apply(hdr.values.v0, meta);    lane1.apply(hdr.values.v1, meta);
            lane2.apply(hdr.values.v2, meta);    lane3.apply(hdr.values.v3, meta);
            lane4.apply(hdr.values.v4, meta);    lane5.apply(hdr.values.v5, meta);
            lane6.apply(hdr.values.v6, meta);    lane7.apply(hdr.values.v7, meta);
            lane8.apply(hdr.values.v8, meta);    lane9.apply(hdr.values.v9, meta);
            lane10.apply(hdr.values.v10, meta);  lane11.apply(hdr.values.v11, meta);
            lane12.apply(hdr.values.v12, meta);  lane13.apply(hdr.values.v13, meta);
            lane14.apply(hdr.values.v14, meta);  lane15.apply(hdr.values.v15, meta);
            // TODO 4: when all meta.workers vectors are there, send_result(); before, the packet ends here. Count
        } else {
            mark_to_drop(standard);
        }
    }
}

V1Switch(AggregationParser(), NoVerifyChecksum(), SumIngress(), NoEgress(), NoComputeChecksum(), AggregationDeparser()) main;
