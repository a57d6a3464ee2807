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
    bit<8>  held;         // whose vectors the aggregator holds
    bit<8>  together;     // those and the packet's
    // The facts that the table `decide` is about
    bit<1>  free;
    bit<1>  mine;         // it holds this job's chunk
    bit<1>  overlap;      // it holds a vector of the packet
    bit<1>  complete;     // with the packet's, all are there
    bit<1>  resend;
    bit<1>  trusted;      // the packet comes from the server's port
}

#include "atp_headers.p4"

// One integer of each aggregator, in each of 16 instances of this control
control Lane(inout bit<32> value, in metadata_t meta) {
    register<bit<32>>(AGGREGATORS) sum;

    apply {
        bit<32> held;
        switch (meta.operation) {
            STORE: {
                sum.write(meta.cell, value);
            }
            ADD: {
                sum.read(held, meta.cell);
                value = value + held;
                sum.write(meta.cell, value);
            }
            READ: {
                sum.read(value, meta.cell);
            }
            default: {}
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

    action drop() {
        mark_to_drop(standard);
    }

    action own(bit<8> operation) {
        bitmap.write(meta.cell, hdr.atp.bitmap);
        job.write(meta.cell, hdr.atp.job);
        chunk.write(meta.cell, hdr.atp.chunk);
        meta.operation = operation;
    }

    action claim() {
        own(STORE);
        drop();
    }

    action claim_complete() {  // a job of one worker
        own(STORE);
        to_server();
    }

    action add() {
        bitmap.write(meta.cell, meta.together);
        meta.operation = ADD;
        drop();
    }

    action add_last() {
        bitmap.write(meta.cell, meta.together);
        hdr.atp.bitmap = meta.together;
        meta.operation = ADD;
        to_server();
    }

    action take_and_add() {
        bitmap.write(meta.cell, 0);
        hdr.atp.bitmap = meta.together;
        meta.operation = ADD;
        to_server();
    }

    action take() {
        bitmap.write(meta.cell, 0);
        hdr.atp.bitmap = meta.held;
        meta.operation = READ;
        to_server();
    }

    action release() {
        bitmap.write(meta.cell, 0);
        to_workers();
    }

    table decide {
        key = {
            hdr.atp.kind:  exact;
            meta.resend:   ternary;
            meta.trusted:  ternary;
            meta.free:     ternary;
            meta.mine:     ternary;
            meta.overlap:  ternary;
            meta.complete: ternary;
        }
        actions = { claim; claim_complete; add; add_last; take_and_add; take; release; to_server; to_workers; drop; }
        const default_action = drop();
        const entries = {
            //         resend trusted free mine overlap complete
            (GRADIENT, 0,     _,      1,   _,   _,      0): claim();
            (GRADIENT, 0,     _,      1,   _,   _,      1): claim_complete();
            (GRADIENT, 0,     _,      0,   1,   1,      _): drop();
            (GRADIENT, 0,     _,      0,   1,   0,      0): add();
            (GRADIENT, 0,     _,      0,   1,   0,      1): add_last();
            (GRADIENT, 1,     _,      _,   1,   0,      _): take_and_add();
            (GRADIENT, 1,     _,      _,   1,   1,      _): take();
            (GRADIENT, _,     _,      _,   _,   _,      _): to_server();
            (RESULT,   _,     1,      _,   1,   _,      _): release();
            (RESULT,   _,     1,      _,   0,   _,      _): to_workers();
        }
    }

    apply {
        if (!hdr.atp.isValid() || !jobs.apply().hit) {
            mark_to_drop(standard);
        } else {
            meta.cell = (bit<32>)hdr.atp.index;
            meta.operation = SKIP;
            if (meta.cell < AGGREGATORS) {
                bit<8> whose;
                bit<32> which;
                bitmap.read(meta.held, meta.cell);
                job.read(whose, meta.cell);
                chunk.read(which, meta.cell);
                meta.free = (bit<1>)(meta.held == 0);
                meta.mine = (bit<1>)(meta.held != 0 && whose == hdr.atp.job && which == hdr.atp.chunk);
                meta.overlap = (bit<1>)((meta.held & hdr.atp.bitmap) != 0);
            }
            meta.together = meta.held | hdr.atp.bitmap;
            meta.complete = (bit<1>)(meta.together == meta.all_workers);
            meta.resend = (bit<1>)(hdr.atp.resend != 0);
            meta.trusted = (bit<1>)(standard.ingress_port == meta.server);
            decide.apply();
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
