// SwitchML's in-switch RDMA, the way in: the switch is the other end of the workers' queue pairs, in unreliable connections.
//
// A worker writes messages of one or more packets, each to the slots of its queue pair: as many as a message has packets, all of one
// round. What the worker takes for memory is the job's stream: the address of its write is the epoch and the number of the first
// packet's chunk, and the key names the pool's first slot, and which of its two sets. Messages that carry no vectors
// (a round that goes ahead, a query) are one packet, with a SwitchML header.
#ifndef ROCE_RECEIVER_P4
#define ROCE_RECEIVER_P4
#include "headers.p4"
#include "metadata.p4"
#include "../icrc.p4"

// Number of a queue pair at a switch: the job's number plus 1, the worker's, and the first slot's. Numbers 0 and 1 mean others in
// InfiniBand.
#define QUEUE_PAIR_JOB 20:16
#define QUEUE_PAIR_WORKER 15:11
#define QUEUE_PAIR_SLOT 10:0

#define QUEUE_PAIRS (MAX_WORKERS * POOL_CELLS / 2)  // of all jobs together

// Why a packet was dropped; index of the counter `refused`
enum bit<32> roce_reject_t {
    SHAPE = 0,       // not whole, or no operation, length, partition or header version that the switch has
    ICRC = 1,        // its ICRC is wrong
    QUEUE_PAIR = 2,  // there is no such queue pair
    KEY = 3,         // its key is not that of the queue pair's slots
    LENGTH = 4,      // the message has not as many bytes as it has to have
    SEQUENCE = 5     // it does not follow the packet before it
}
#define ROCE_REASONS 6

// Where a queue pair's registers are.
bit<32> queue_pair_of(in worker_t link, in cell_t base, in slot_t first) {
    return (bit<32>)link * (POOL_CELLS / 2) + (base >> 1) + (bit<32>)first;
}

// Which queue pair a packet is for, and so whose it is. What it is about is known only later where it has no SwitchML header.
control QueuePair(inout headers_t hdr, inout switchml_metadata_t meta, in standard_metadata_t standard) {
    Icrc() icrc;
    counter(ROCE_REASONS, CounterType.packets) refused;

    action set_message(slot_t packets) {
        meta.message = packets;
    }

    table messages {
        key = { hdr.bth.queue_pair[QUEUE_PAIR_JOB] : exact; }
        actions = { set_message; NoAction; }
        size = MAX_JOBS;
        default_action = NoAction();
    }

    apply {
        bit<32> check = 0;
        bool whole = IS_WHOLE && hdr.icrc.isValid() && hdr.bth.pad == 0 && hdr.bth.version == 0
                     && hdr.bth.partition == DEFAULT_PARTITION;
        if (whole) {
            icrc.apply(hdr, check);
        }
        worker_t worker = (worker_t)hdr.bth.queue_pair[QUEUE_PAIR_WORKER];
        job_t job = (job_t)hdr.bth.queue_pair[QUEUE_PAIR_JOB] - 1;
        meta.base_slot = (slot_t)hdr.bth.queue_pair[QUEUE_PAIR_SLOT];
        bool known = whole && messages.apply().hit && hdr.bth.queue_pair[23:21] == 0 && (meta.base_slot & (meta.message - 1)) == 0;
        if (!whole) {
            refused.count(roce_reject_t.SHAPE);
        } else if (check != hdr.icrc.value) {
            refused.count(roce_reject_t.ICRC);
        } else if (!known) {
            refused.count(roce_reject_t.QUEUE_PAIR);
        } else if (hdr.switchml.isValid()) {
            bool upward = hdr.switchml.kind == switchml_kind_t.UPDATE || hdr.switchml.kind == switchml_kind_t.QUERY
                          || hdr.switchml.kind == switchml_kind_t.CONNECT;
            if (hdr.switchml.job == job && upward == (worker != PARENT) && (worker == PARENT || hdr.switchml.worker == worker)
                && hdr.switchml.slot >= meta.base_slot && hdr.switchml.slot < meta.base_slot + meta.message
                && hdr.switchml.version < 2 && hdr.switchml.epoch != 0) {
                meta.well_formed = 1;
            } else {
                refused.count(roce_reject_t.SHAPE);
            }
        } else {
            meta.well_formed = 1;
            hdr.switchml.setValid();
            hdr.switchml.job = job;
            hdr.switchml.worker = worker;
            hdr.switchml.slot = meta.base_slot;
            if (worker == PARENT) {
                hdr.switchml.kind = switchml_kind_t.RESULT;
            } else {
                hdr.switchml.kind = switchml_kind_t.UPDATE;
            }
        }
    }
}

// Which packet of its message it is, by the packet sequence number; it comes behind admission. The first one says what the message is
// about. A gap costs the rest of the message.
control RoceReceiver(inout headers_t hdr, inout switchml_metadata_t meta) {
    register<bit<32>>(QUEUE_PAIRS) expected;  // the next packet's sequence number plus 2^24; 0: no message is under way
    register<round_t>(QUEUE_PAIRS) chunk;     // epoch and chunk of the next packet
    register<bit<32>>(QUEUE_PAIRS) place;     // set and slot of it
    counter(ROCE_REASONS, CounterType.packets) refused;

    apply {
        bit<32> pair = queue_pair_of(meta.link, meta.base, meta.base_slot);
        bit<32> next = 0;
        round_t its = 0;
        bit<32> where = 0;
        meta.in_sequence = 0;
        if (!hdr.vector.isValid()) {
            meta.in_sequence = 1;
            if (hdr.reth.length != (bit<32>)(hdr.udp.length - BYTES_UDP - BYTES_BTH - BYTES_RETH - BYTES_IMMEDIATE - BYTES_ICRC)) {
                meta.in_sequence = 0;
                refused.count(roce_reject_t.LENGTH);
            }
        } else if (hdr.reth.isValid()) {
            its = hdr.reth.address;
            where = hdr.reth.key;
            slot_t slot = where[15:0];
            bit<32> length = (bit<32>)BYTES_VECTOR;
            if (!hdr.immediate.isValid()) {
                length = (bit<32>)meta.message * length;
            }
            if (where[31:17] != 0 || slot < meta.base_slot || slot >= meta.base_slot + meta.message || its[63:32] == 0
                || (!hdr.immediate.isValid() && (slot != meta.base_slot || meta.message == 1))) {
                refused.count(roce_reject_t.KEY);
            } else if (hdr.reth.length != length) {
                refused.count(roce_reject_t.LENGTH);
            } else {
                meta.in_sequence = 1;
            }
        } else {
            expected.read(next, pair);
            chunk.read(its, pair);
            place.read(where, pair);
            bool last = where[15:0] + 1 == meta.base_slot + meta.message;
            if (next == 8w1 ++ hdr.bth.psn && hdr.immediate.isValid() == last && where[15:0] < meta.base_slot + meta.message) {
                meta.in_sequence = 1;
            } else {
                refused.count(roce_reject_t.SEQUENCE);
            }
        }
        if (hdr.vector.isValid()) {
            next = 0;
            if (meta.in_sequence == 1) {
                hdr.switchml.version = 7w0 ++ where[16:16];
                hdr.switchml.slot = where[15:0];
                hdr.switchml.epoch = its[63:32];
                hdr.switchml.chunk = its[31:0];
                hdr.switchml.exponent = 0;
                hdr.switchml.mark = 0;
                if (hdr.immediate.isValid()) {
                    hdr.switchml.mark = 7w0 ++ hdr.immediate.again;
                } else {
                    next = 8w1 ++ (hdr.bth.psn + 1);
                }
            }
            if (!(hdr.reth.isValid() && hdr.immediate.isValid())) {  // which is a message of its own
                expected.write(pair, next);
                chunk.write(pair, its[63:32] ++ (its[31:0] + 1));
                place.write(pair, where + 1);
            }
        }
    }
}

#endif
