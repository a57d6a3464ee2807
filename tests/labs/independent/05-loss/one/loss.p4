// Lab 5, own style: one word of state for each slot, with both versions in it; a control of its own decides.
#include <core.p4>
#include <v1model.p4>

const bit<32> POOL = 256;

const bit<2> DROP = 0;    // nothing to say
const bit<2> ALL = 1;     // the sum has just become complete
const bit<2> ONE = 2;     // the sum is there: once more, for this worker

struct metadata_t {
    bit<8>  workers;
    bit<1>  add;      // the vector goes into the sum
    bit<1>  first;    // and is the first of it
    bit<2>  verdict;
    bit<32> cell;     // of the sums
}

#include "headers.p4"

control Lane(inout bit<32> value, in metadata_t meta) {
    register<bit<32>>(2 * POOL) sum;

    apply {
        bit<32> old;
        sum.read(old, meta.cell);
        if (meta.add == 0) {
            value = old;
        } else {
            if (meta.first == 0) { value = value + old; }
            sum.write(meta.cell, value);
        }
    }
}

// What is to be done with a vector. A slot's word: complete (1), seen (16) of version 1, then the same of version 0.
// There is no count. `complete` is remembered since bits go away again while workers move on to the other version.
control Decide(in aggregation_t a, inout metadata_t meta) {
    register<bit<34>>(POOL) state;

    apply {
        bit<34> word;
        bit<17> mine;
        bit<17> other;
        bit<17> me = 17w1 << a.worker;
        bit<17> full = (17w1 << meta.workers) - 1;
        state.read(word, (bit<32>)a.slot);
        if (a.version == 0) { mine = word[16:0]; other = word[33:17]; } else { mine = word[33:17]; other = word[16:0]; }

        if (mine & me != 0) {
            meta.add = 0;
            if (mine[16:16] == 1) { meta.verdict = ONE; } else { meta.verdict = DROP; }
        } else {
            meta.add = 1;
            if (mine[15:0] == 0) { meta.first = 1; mine = 0; }   // a new sum begins: not complete
            mine = mine | me;
            other = other & ~me;
            meta.verdict = DROP;
            if (mine == full) {
                mine[16:16] = 1;
                meta.verdict = ALL;
            }
            if (a.version == 0) { word = other ++ mine; } else { word = mine ++ other; }
            state.write((bit<32>)a.slot, word);
        }
    }
}

control LossIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    Decide() decide;
    Lane() lane0;  Lane() lane1;  Lane() lane2;  Lane() lane3;  Lane() lane4;  Lane() lane5;  Lane() lane6;  Lane() lane7;
    Lane() lane8;  Lane() lane9;  Lane() lane10; Lane() lane11; Lane() lane12; Lane() lane13; Lane() lane14; Lane() lane15;

    action set_workers(bit<8> workers) {
        meta.workers = workers;
    }

    table job {
        actions = { set_workers; }
        default_action = set_workers(0);
    }

    apply {
        if (hdr.aggregation.isValid() && hdr.aggregation.kind == UPDATE && (bit<32>)hdr.aggregation.slot < POOL
            && hdr.aggregation.version < 2) {
            job.apply();
            if (hdr.aggregation.worker < meta.workers) {
                meta.cell = 2 * (bit<32>)hdr.aggregation.slot + (bit<32>)hdr.aggregation.version;
                decide.apply(hdr.aggregation, meta);
                lane0.apply(hdr.values.v0, meta);    lane1.apply(hdr.values.v1, meta);
                lane2.apply(hdr.values.v2, meta);    lane3.apply(hdr.values.v3, meta);
                lane4.apply(hdr.values.v4, meta);    lane5.apply(hdr.values.v5, meta);
                lane6.apply(hdr.values.v6, meta);    lane7.apply(hdr.values.v7, meta);
                lane8.apply(hdr.values.v8, meta);    lane9.apply(hdr.values.v9, meta);
                lane10.apply(hdr.values.v10, meta);  lane11.apply(hdr.values.v11, meta);
                lane12.apply(hdr.values.v12, meta);  lane13.apply(hdr.values.v13, meta);
                lane14.apply(hdr.values.v14, meta);  lane15.apply(hdr.values.v15, meta);
            }
            if (meta.verdict == DROP) {
                mark_to_drop(standard);
            } else {
                hdr.aggregation.kind = RESULT;
                hdr.ethernet.dst = hdr.ethernet.src;
                hdr.ethernet.src = SWITCH;
                if (meta.verdict == ALL) {
                    hdr.ethernet.dst = EVERYBODY;
                    standard.mcast_grp = 1;
                } else {
                    standard.egress_spec = standard.ingress_port;
                }
            }
        } else {
            mark_to_drop(standard);
        }
    }
}

V1Switch(AggregationParser(), NoVerifyChecksum(), LossIngress(), NoEgress(), NoComputeChecksum(), AggregationDeparser()) main;
