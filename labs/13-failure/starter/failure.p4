// Lab 13: a pool for a group whose members may fail. It is lab 5's program; you write what is marked TODO.
#include <core.p4>
#include <v1model.p4>

const bit<32> POOL = 256;  // slots of each version
const bit<8> STORE = 0;    // what the lanes do: begin a sum,
const bit<8> ADD = 1;      // add to it,
const bit<8> READ = 2;     // or put it into the packet as it is
const bit<8> GROUP = 3;    // kinds: a new group, from the coordinator,
const bit<8> ALIVE = 4;    // a sign of life, to it,
const bit<8> DONE = 5;     // a worker has the whole sum,
const bit<8> COMMIT = 6;   // and all have

struct metadata_t {
    bit<8>  workers;      // how many vectors make a sum. TODO 2: a group knows who, not how many
    bit<9>  coordinator;  // its port
    bit<8>  operation;
    bit<32> cell;         // of every register: the slot's, in the packet's version
}

#include "headers.p4"

// One integer of each cell's vector, in each of 16 instances of this control
control Lane(inout bit<32> value, in metadata_t meta) {
    register<bit<32>>(2 * POOL) sum;

    apply {
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

control FailureIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<8>>(2 * POOL) arrived;  // vectors in the sum; 0 once it is complete
    register<bit<16>>(2 * POOL) seen;    // whose: a bit for each worker
    // TODO 1: registers for the group: its epoch, and a bit for each of its members
    // TODO 3: a register: which epoch's sum is in a cell?
    Lane() lane0;  Lane() lane1;  Lane() lane2;  Lane() lane3;  Lane() lane4;  Lane() lane5;  Lane() lane6;  Lane() lane7;
    Lane() lane8;  Lane() lane9;  Lane() lane10; Lane() lane11; Lane() lane12; Lane() lane13; Lane() lane14; Lane() lane15;

    // The control plane says where the coordinator is: table_set_default coordinator set_coordinator 20
    action set_coordinator(bit<9> port) {
        meta.coordinator = port;
    }

    table coordinator {
        actions = { set_coordinator; }
        default_action = set_coordinator(0);
    }

    action send_result() {
        hdr.aggregation.kind = RESULT;
        hdr.ethernet.src = SWITCH;
        hdr.ethernet.dst = EVERYBODY;
        standard.mcast_grp = 1;
    }

    // To a worker that sent its vector again: the sum was complete, and its result was lost
    action send_result_again() {
        hdr.aggregation.kind = RESULT;
        hdr.ethernet.dst = hdr.ethernet.src;
        hdr.ethernet.src = SWITCH;
        standard.egress_spec = standard.ingress_port;
    }

    apply {
        // TODO 1: from the coordinator's port: a GROUP that is newer is kept; GROUP and COMMIT go to all workers
        // TODO 4: ALIVE and DONE go to the coordinator
        // TODO 2: only members of this epoch add
        if (hdr.aggregation.isValid() && hdr.aggregation.kind == UPDATE && (bit<32>)hdr.aggregation.slot < POOL
            && hdr.aggregation.worker < 16) {
            coordinator.apply();
            bit<32> version = (bit<32>)(hdr.aggregation.version & 1);
            meta.cell = version * POOL + (bit<32>)hdr.aggregation.slot;
            bit<32> other = (1 - version) * POOL + (bit<32>)hdr.aggregation.slot;
            bit<16> mine = 16w1 << hdr.aggregation.worker;
            bit<16> here;
            bit<16> there;
            bit<8> n;
            seen.read(here, meta.cell);
            seen.read(there, other);
            arrived.read(n, meta.cell);
            // TODO 3: what an earlier group has left in the cell counts as nothing
            if (here & mine == 0) {
                seen.write(meta.cell, here | mine);
                seen.write(other, there & ~mine);
                meta.operation = (n == 0) ? STORE : ADD;
                n = n + 1;
                if (n == meta.workers) {
                    n = 0;
                }
                arrived.write(meta.cell, n);
            } else {
                meta.operation = READ;
            }
            lane0.apply(hdr.values.v0, meta);    lane1.apply(hdr.values.v1, meta);
            lane2.apply(hdr.values.v2, meta);    lane3.apply(hdr.values.v3, meta);
            lane4.apply(hdr.values.v4, meta);    lane5.apply(hdr.values.v5, meta);
            lane6.apply(hdr.values.v6, meta);    lane7.apply(hdr.values.v7, meta);
            lane8.apply(hdr.values.v8, meta);    lane9.apply(hdr.values.v9, meta);
            lane10.apply(hdr.values.v10, meta);  lane11.apply(hdr.values.v11, meta);
            lane12.apply(hdr.values.v12, meta);  lane13.apply(hdr.values.v13, meta);
            lane14.apply(hdr.values.v14, meta);  lane15.apply(hdr.values.v15, meta);
            if (n != 0) {
                mark_to_drop(standard);  // the sum is not complete
            } else if (meta.operation == READ) {
                send_result_again();
            } else {
                send_result();
            }
        } else {
            mark_to_drop(standard);
        }
    }
}

V1Switch(AggregationParser(), NoVerifyChecksum(), FailureIngress(), NoEgress(), NoComputeChecksum(), AggregationDeparser()) main;
