// Lab 8: a switch that several jobs share: aggregators are taken packet by packet, and what finds none goes to the
// server (ATP). You write what is marked TODO.
#include <core.p4>
#include <v1model.p4>

#ifndef AGGREGATORS
#define AGGREGATORS 64
#endif

const bit<8> STORE = 0;  // what the lanes do: begin a sum,
const bit<8> ADD = 1;    // add to it, and put the sum into the packet,
const bit<8> READ = 2;   // put the sum into the packet as it is,
const bit<8> SKIP = 3;   // or nothing

struct metadata_t {
    bit<8>  operation;
    bit<32> cell;         // the aggregator
    bit<8>  all_workers;  // the bitmap of a complete sum of the job
    bit<9>  server;       // the port of its server
    bit<16> workers;      // the multicast group of its workers
}

#include "atp_headers.p4"

// One integer of each aggregator, in each of 16 instances of this control
control Lane(inout bit<32> value, in metadata_t meta) {
    register<bit<32>>(AGGREGATORS) sum;

    apply {
        // TODO 1: what meta.operation says
    }
}

control ShareIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<8>>(AGGREGATORS) bitmap;  // whose vectors an aggregator holds; 0 if it is free
    register<bit<8>>(AGGREGATORS) job;     // whose it is:
    register<bit<32>>(AGGREGATORS) chunk;  // the chunk of this job
    Lane() lane0;  Lane() lane1;  Lane() lane2;  Lane() lane3;  Lane() lane4;  Lane() lane5;  Lane() lane6;  Lane() lane7;
    Lane() lane8;  Lane() lane9;  Lane() lane10; Lane() lane11; Lane() lane12; Lane() lane13; Lane() lane14; Lane() lane15;

    // The control plane says what jobs there are: table_add jobs set_job 1 => 0x0f 9 1
    action set_job(bit<8> all_workers, bit<9> server, bit<16> workers) {
        meta.all_workers = all_workers;
        meta.server = server;
        meta.workers = workers;
    }

    table jobs {
        key = { hdr.atp.job: exact; }
        actions = { set_job; NoAction; }
        default_action = NoAction();
    }

    action to_server() {
        standard.egress_spec = meta.server;
    }

    action to_workers() {
        standard.mcast_grp = meta.workers;
    }

    apply {
        if (!hdr.atp.isValid() || !jobs.apply().hit) {
            mark_to_drop(standard);
        } else {
            meta.cell = (bit<32>)hdr.atp.index;
            meta.operation = SKIP;
            // TODO 2: whose is the aggregator? Free, this packet's (the same job and chunk), or another's?
            // TODO 3: a GRADIENT claims a free aggregator, adds to its own, and goes to the server where it is another's
            // TODO 4: a GRADIENT that is sent again takes along what its aggregator holds, frees it, and goes to the server
            // TODO 5: a RESULT from the server's port goes to the workers, and frees its own aggregator
            to_server();
            lane0.apply(hdr.values.v0, meta);    lane1.apply(hdr.values.v1, meta);
            lane2.apply(hdr.values.v2, meta);    lane3.apply(hdr.values.v3, meta);
            lane4.apply(hdr.values.v4, meta);    lane5.apply(hdr.values.v5, meta);
            lane6.apply(hdr.values.v6, meta);    lane7.apply(hdr.values.v7, meta);
            lane8.apply(hdr.values.v8, meta);    lane9.apply(hdr.values.v9, meta);
            lane10.apply(hdr.values.v10, meta);  lane11.apply(hdr.values.v11, meta);
            lane12.apply(hdr.values.v12, meta);  lane13.apply(hdr.values.v13, meta);
            lane14.apply(hdr.values.v14, meta);  lane15.apply(hdr.values.v15, meta);
        }
    }
}

V1Switch(AtpParser(), NoVerifyChecksum(), ShareIngress(), NoEgress(), NoComputeChecksum(), AtpDeparser()) main;
