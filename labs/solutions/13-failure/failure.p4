// Lab 13: a pool for a group whose members may fail. Nothing of an earlier group enters a sum of this one.
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
    register<bit<8>>(1) epoch;            // of the group
    register<bit<16>>(1) members;         // of the group, a bit each
    register<bit<8>>(2 * POOL) of_epoch;  // the group whose sum a cell has
    register<bit<16>>(2 * POOL) missing;  // whose vectors are not in the sum yet; 0 once it is complete
    register<bit<16>>(2 * POOL) seen;     // whose have been
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
        coordinator.apply();
        bit<8> now;
        bit<16> all;
        epoch.read(now, 0);
        members.read(all, 0);
        bit<16> mine = (hdr.aggregation.worker < 16) ? 16w1 << hdr.aggregation.worker : 0;
        bool from_coordinator = standard.ingress_port == meta.coordinator;
        if (!hdr.aggregation.isValid()) {
            mark_to_drop(standard);
        } else if (from_coordinator && (hdr.aggregation.kind == GROUP || hdr.aggregation.kind == COMMIT)) {
            if (hdr.aggregation.kind == GROUP && hdr.aggregation.job > now) {
                epoch.write(0, hdr.aggregation.job);
                members.write(0, hdr.values.v0[15:0]);
            }
            standard.mcast_grp = 1;
        } else if (!from_coordinator && (hdr.aggregation.kind == ALIVE || hdr.aggregation.kind == DONE)) {
            standard.egress_spec = meta.coordinator;
        } else if (hdr.aggregation.kind == UPDATE && hdr.aggregation.job == now && all & mine != 0
                   && (bit<32>)hdr.aggregation.slot < POOL) {
            bit<32> version = (bit<32>)(hdr.aggregation.version & 1);
            meta.cell = version * POOL + (bit<32>)hdr.aggregation.slot;
            bit<32> other = (1 - version) * POOL + (bit<32>)hdr.aggregation.slot;
            bit<16> here;
            bit<16> there;
            bit<16> lacking;
            bit<8> then;
            seen.read(here, meta.cell);
            seen.read(there, other);
            missing.read(lacking, meta.cell);
            of_epoch.read(then, meta.cell);
            if (then != now) {  // what is there is an earlier group's
                here = 0;
                lacking = 0;
                of_epoch.write(meta.cell, now);
            }
            if (here & mine == 0) {
                seen.write(meta.cell, here | mine);
                seen.write(other, there & ~mine);
                meta.operation = (lacking == 0) ? STORE : ADD;
                lacking = ((lacking == 0) ? all : lacking) & ~mine;
                missing.write(meta.cell, lacking);
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
            if (lacking != 0) {
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
