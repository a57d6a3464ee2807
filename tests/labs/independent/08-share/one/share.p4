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
}

#include "atp_headers.p4"

// One integer of each aggregator, in each of 16 instances of this control
control Lane(inout bit<32> value, in metadata_t meta) {
    register<bit<32>>(AGGREGATORS) sum;

    apply {
        if (meta.operation != SKIP) {
            bit<32> old = 0;
            if (meta.operation != STORE) { sum.read(old, meta.cell); }
            bit<32> own = (meta.operation == READ) ? 32w0 : value;
            value = old + own;
            sum.write(meta.cell, value);
        }
    }
}

const bit<2> FREE = 0;
const bit<2> MINE = 1;
const bit<2> OTHERS = 2;
const bit<2> NOWHERE = 3;

// What becomes of the packet and of its aggregator
control Decide(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<48>>(AGGREGATORS) owners;  // job ++ chunk ++ bitmap
    bit<48> owner = 0;
    bit<2> whose = NOWHERE;
    bool among = false;
    bool from_server = false;

    action drop() {
        mark_to_drop(standard);
    }
    action pass() {
        standard.egress_spec = meta.server;
    }
    action claim() {
        meta.operation = STORE;
        owners.write(meta.cell, hdr.atp.job ++ hdr.atp.chunk ++ hdr.atp.bitmap);
        mark_to_drop(standard);
    }
    action join() {
        meta.operation = ADD;
        hdr.atp.bitmap = hdr.atp.bitmap | meta.held;
        owners.write(meta.cell, hdr.atp.job ++ hdr.atp.chunk ++ hdr.atp.bitmap);
        mark_to_drop(standard);
    }
    action collect(bit<8> operation) {
        meta.operation = operation;
        hdr.atp.bitmap = hdr.atp.bitmap | meta.held;
        owners.write(meta.cell, 0);
        standard.egress_spec = meta.server;
    }
    action publish() {
        standard.mcast_grp = meta.workers;
    }
    action publish_and_free() {
        owners.write(meta.cell, 0);
        standard.mcast_grp = meta.workers;
    }

    table cases {
        key = {
            hdr.atp.kind: ternary;
            hdr.atp.resend: ternary;
            whose: ternary;
            among: ternary;
            from_server: ternary;
        }
        actions = { drop; pass; claim; join; collect; publish; publish_and_free; }
        const entries = {
            (RESULT, _, MINE, _, true) : publish_and_free();
            (RESULT, _, _, _, true) : publish();
            (GRADIENT, 0, FREE, _, _) : claim();
            (GRADIENT, 0, MINE, false, _) : join();
            (GRADIENT, 0, MINE, true, _) : drop();
            (GRADIENT, _, MINE, false, _) : collect(ADD);
            (GRADIENT, _, MINE, true, _) : collect(READ);
            (GRADIENT, _, _, _, _) : pass();
        }
        default_action = drop();
    }

    apply {
        if (meta.cell < AGGREGATORS) {
            owners.read(owner, meta.cell);
            meta.held = owner[7:0];
            if (meta.held == 0) {
                whose = FREE;
            } else if (owner[47:8] == hdr.atp.job ++ hdr.atp.chunk) {
                whose = MINE;
            } else {
                whose = OTHERS;
            }
        }
        among = (meta.held & hdr.atp.bitmap) != 0;
        from_server = standard.ingress_port == meta.server;
        cases.apply();
        // a complete sum that is not a resend goes to the server, too
        if (hdr.atp.kind == GRADIENT && (meta.operation == STORE || meta.operation == ADD) && hdr.atp.bitmap == meta.all_workers) {
            standard.egress_spec = meta.server;
        }
    }
}

control ShareIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    Decide() decide;
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

    apply {
        if (!hdr.atp.isValid() || !jobs.apply().hit) {
            mark_to_drop(standard);
        } else {
            meta.cell = (bit<32>)hdr.atp.index;
            meta.operation = SKIP;
            decide.apply(hdr, meta, standard);
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
