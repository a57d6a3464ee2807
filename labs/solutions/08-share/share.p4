// Lab 8: a switch that several jobs share: aggregators are taken packet by packet, and what finds none goes to the server (ATP).
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
        if (meta.operation != SKIP) {
            bit<32> before;
            sum.read(before, meta.cell);
            if (meta.operation == ADD) {
                value = before + value;
            } else if (meta.operation == READ) {
                value = before;
            }
            sum.write(meta.cell, value);
        }
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

    // The packet's workers are in the aggregator. A complete sum goes to the server; the aggregator is free when the result passes
    action keep() {
        bitmap.write(meta.cell, hdr.atp.bitmap);
        if (hdr.atp.bitmap == meta.all_workers) {
            to_server();
        } else {
            mark_to_drop(standard);
        }
    }

    apply {
        if (!hdr.atp.isValid() || !jobs.apply().hit) {
            mark_to_drop(standard);
        } else {
            bit<8> held;
            bit<8> owner_job;
            bit<32> owner_chunk;
            meta.cell = (bit<32>)hdr.atp.index;
            meta.operation = SKIP;
            bitmap.read(held, meta.cell);
            job.read(owner_job, meta.cell);
            chunk.read(owner_chunk, meta.cell);
            bool mine = held != 0 && owner_job == hdr.atp.job && owner_chunk == hdr.atp.chunk;
            bool exists = meta.cell < AGGREGATORS;
            if (hdr.atp.kind == RESULT && standard.ingress_port == meta.server) {
                if (exists && mine) {
                    bitmap.write(meta.cell, 0);
                }
                to_workers();
            } else if (hdr.atp.kind != GRADIENT || standard.ingress_port == meta.server) {
                mark_to_drop(standard);
            } else if (!exists) {
                to_server();
            } else if (hdr.atp.resend == 1) {  // takes along what is held, and never claims
                if (mine) {
                    meta.operation = (held & hdr.atp.bitmap == 0) ? ADD : READ;
                    hdr.atp.bitmap = held | hdr.atp.bitmap;
                    bitmap.write(meta.cell, 0);
                }
                to_server();
            } else if (held == 0) {  // free: claim it
                meta.operation = STORE;
                job.write(meta.cell, hdr.atp.job);
                chunk.write(meta.cell, hdr.atp.chunk);
                keep();
            } else if (!mine) {  // another's: the server adds this one
                to_server();
            } else if (held & hdr.atp.bitmap == 0) {
                meta.operation = ADD;
                hdr.atp.bitmap = held | hdr.atp.bitmap;
                keep();
            } else {
                mark_to_drop(standard);  // it is in the sum already
            }
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
