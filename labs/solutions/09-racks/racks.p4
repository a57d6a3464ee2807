// Lab 9: one program for every switch of a tree: each adds its children's vectors, and sends the sum up, or down if it is the root.
#include <core.p4>
#include <v1model.p4>

const bit<32> POOL = 256;  // slots of each version
const bit<8> STORE = 0;    // what the lanes do: begin a sum,
const bit<8> ADD = 1;      // add to it,
const bit<8> READ = 2;     // or put it into the packet as it is

struct metadata_t {
    bit<8>  children;   // how many vectors make a sum here
    bit<9>  parent;     // the port of the switch above; 0 at the root
    bit<8>  number;     // this switch's among that one's children
    bit<8>  operation;
    bit<32> cell;       // of every register: the slot's, in the packet's version
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

control RacksIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<8>>(2 * POOL) arrived;   // vectors in the sum; 0 once all children's are in
    register<bit<16>>(2 * POOL) seen;     // whose: a bit for each child
    register<bit<1>>(2 * POOL) complete;  // the sum is that of all workers, not of this switch's children alone
    register<bit<32>>(2 * POOL) chunks;   // which chunk is in the cell
    Lane() lane0;  Lane() lane1;  Lane() lane2;  Lane() lane3;  Lane() lane4;  Lane() lane5;  Lane() lane6;  Lane() lane7;
    Lane() lane8;  Lane() lane9;  Lane() lane10; Lane() lane11; Lane() lane12; Lane() lane13; Lane() lane14; Lane() lane15;

    // The control plane says where this switch is: table_set_default place set_place 4 9 1
    action set_place(bit<8> children, bit<9> parent, bit<8> number) {
        meta.children = children;
        meta.parent = parent;
        meta.number = number;
    }

    table place {
        actions = { set_place; }
        default_action = set_place(0, 0, 0);
    }

    action send_up() {
        hdr.aggregation.worker = meta.number;
        hdr.ethernet.src = SWITCH;
        standard.egress_spec = meta.parent;
    }

    action send_down() {
        hdr.aggregation.kind = RESULT;
        hdr.ethernet.src = SWITCH;
        hdr.ethernet.dst = EVERYBODY;
        standard.mcast_grp = 1;
    }

    // To a child that sent its vector again: the sum was complete, and its result was lost
    action send_down_again() {
        hdr.aggregation.kind = RESULT;
        hdr.ethernet.dst = hdr.ethernet.src;
        hdr.ethernet.src = SWITCH;
        standard.egress_spec = standard.ingress_port;
    }

    apply {
        place.apply();
        bool from_above = meta.parent != 0 && standard.ingress_port == meta.parent;
        if (!hdr.aggregation.isValid() || (bit<32>)hdr.aggregation.slot >= POOL || hdr.aggregation.worker >= 16
            || hdr.aggregation.kind != (from_above ? RESULT : UPDATE)) {
            mark_to_drop(standard);
        } else {
            bit<32> version = (bit<32>)(hdr.aggregation.version & 1);
            meta.cell = version * POOL + (bit<32>)hdr.aggregation.slot;
            bit<32> other = (1 - version) * POOL + (bit<32>)hdr.aggregation.slot;
            bit<16> mine = 16w1 << hdr.aggregation.worker;
            bit<16> here;
            bit<16> there;
            bit<8> n;
            bit<1> done;
            bit<32> chunk;
            seen.read(here, meta.cell);
            seen.read(there, other);
            arrived.read(n, meta.cell);
            complete.read(done, meta.cell);
            chunks.read(chunk, meta.cell);
            bool again = false;
            if (from_above) {
                meta.operation = STORE;
                if (done == 1 || n != 0 || chunk != hdr.aggregation.chunk) {
                    meta.operation = READ;  // it came before: nothing changes
                    again = true;
                }
                done = 1;
            } else if (here & mine == 0) {
                seen.write(meta.cell, here | mine);
                seen.write(other, there & ~mine);
                meta.operation = (n == 0) ? STORE : ADD;
                n = n + 1;
                if (n == meta.children) {
                    n = 0;
                }
                done = (bit<1>)(n == 0 && meta.parent == 0);
                arrived.write(meta.cell, n);
                chunks.write(meta.cell, hdr.aggregation.chunk);
            } else {
                meta.operation = READ;
                again = true;
            }
            lane0.apply(hdr.values.v0, meta);    lane1.apply(hdr.values.v1, meta);
            lane2.apply(hdr.values.v2, meta);    lane3.apply(hdr.values.v3, meta);
            lane4.apply(hdr.values.v4, meta);    lane5.apply(hdr.values.v5, meta);
            lane6.apply(hdr.values.v6, meta);    lane7.apply(hdr.values.v7, meta);
            lane8.apply(hdr.values.v8, meta);    lane9.apply(hdr.values.v9, meta);
            lane10.apply(hdr.values.v10, meta);  lane11.apply(hdr.values.v11, meta);
            lane12.apply(hdr.values.v12, meta);  lane13.apply(hdr.values.v13, meta);
            lane14.apply(hdr.values.v14, meta);  lane15.apply(hdr.values.v15, meta);
            if (n != 0 || (from_above && again)) {
                mark_to_drop(standard);  // the sum is not complete, or the result is known already
            } else if (done == 0) {
                send_up();               // the children's sum; again if a child sends again, because it or the result was lost
            } else if (again) {
                send_down_again();
            } else {
                send_down();
            }
            if (!again) {
                complete.write(meta.cell, done);
            }
        }
    }
}

V1Switch(AggregationParser(), NoVerifyChecksum(), RacksIngress(), NoEgress(), NoComputeChecksum(), AggregationDeparser()) main;
