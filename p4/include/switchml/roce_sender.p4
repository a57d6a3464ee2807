// SwitchML's in-switch RDMA, the way out: what the pool has, as packets of writes to a worker's memory, or to another switch.
//
// The packets of a message leave one by one, as the chunks become complete. Each has the place in its message that its slot has in
// the queue pair, and a packet sequence number accordingly: where one does not leave, the receiver finds a gap, and drops the rest.
// A worker then sends its message again, and gets the whole result. Between switches what is sent again is a message of one packet:
// others of the same round may have come.
#ifndef ROCE_SENDER_P4
#define ROCE_SENDER_P4
#include "headers.p4"
#include "metadata.p4"
#include "roce_receiver.p4"
#include "roce_ends.p4"

// The packet sequence number. A message has as many as packets, from the first one's on, whenever the others leave. None leaves
// whose message has not begun: it would pass for one of the message before.
control Numbering(inout headers_t hdr, in switchml_metadata_t meta, inout standard_metadata_t standard, in bit<32> pair, in bool alone) {
    register<psn_t>(QUEUE_PAIRS) next;         // message's first
    register<psn_t>(2 * QUEUE_PAIRS) first;    // of the message that was begun last, in each set,
    register<round_t>(2 * QUEUE_PAIRS) begun;  // and the epoch and the first chunk of that

    apply {
        bit<32> set = 2 * pair + (bit<32>)hdr.switchml.version;
        slot_t i = hdr.switchml.slot - meta.base_slot;
        round_t of_first = hdr.switchml.epoch ++ (hdr.switchml.chunk - (chunk_t)i);
        if (hdr.connect.isValid()) {
            if (meta.end_is_new == 1) {
                next.write(pair, hdr.connect.psn);
            }
        } else if (alone) {
            next.read(hdr.bth.psn, pair);
            next.write(pair, hdr.bth.psn + 1);
        } else if (i == 0) {
            next.read(hdr.bth.psn, pair);
            next.write(pair, hdr.bth.psn + (psn_t)meta.message);
            first.write(set, hdr.bth.psn);
            begun.write(set, of_first);
        } else {
            round_t current;
            begun.read(current, set);
            first.read(hdr.bth.psn, set);
            hdr.bth.psn = hdr.bth.psn + (psn_t)i;
            if (current != of_first) {
                mark_to_drop(standard);
            }
        }
    }
}

// Which packet of a message it is, and the headers that it has: `alone`, the first, one in the middle or the last.
control Framing(inout headers_t hdr, in switchml_metadata_t meta, in bool alone) {
    apply {
        slot_t i = hdr.switchml.slot - meta.base_slot;
        bool last = alone || i + 1 == meta.message;
        bit<16> payload = BYTES_VECTOR;
        if (!hdr.vector.isValid()) {
            payload = BYTES_SWITCHML + BYTES_TAG;  // as long as a status
        }
        hdr.udp.length = BYTES_UDP + BYTES_BTH + BYTES_ICRC + payload;
        if (alone) {
            hdr.bth.opcode = opcode_t.UC_WRITE_ONLY_IMMEDIATE;
            hdr.reth.length = (bit<32>)payload;
        } else if (i == 0) {
            hdr.bth.opcode = opcode_t.UC_WRITE_FIRST;
            hdr.reth.length = (bit<32>)meta.message * (bit<32>)BYTES_VECTOR;
        } else {
            hdr.bth.opcode = opcode_t.UC_WRITE_MIDDLE;
            hdr.reth.setInvalid();
            if (last) {
                hdr.bth.opcode = opcode_t.UC_WRITE_LAST_IMMEDIATE;
            }
        }
        if (hdr.reth.isValid()) {
            hdr.udp.length = hdr.udp.length + BYTES_RETH;
        }
        if (!last) {
            hdr.immediate.setInvalid();
        } else {
            hdr.udp.length = hdr.udp.length + BYTES_IMMEDIATE;
            if (!hdr.immediate.isValid()) {  // between switches: only that of a message's last packet counts
                hdr.immediate.setValid();
                hdr.immediate.turn = 0;
                hdr.immediate.exponent0 = 0;
                hdr.immediate.exponent1 = 0;
                hdr.immediate.exponent2 = 0;
                hdr.immediate.exponent3 = 0;
            }
            hdr.immediate.again = hdr.switchml.mark[0:0];
        }
        hdr.udp.src = UDP_PORT_ROCE;
        hdr.udp.checksum = 0;
        hdr.ipv4.length = BYTES_IPV4 + hdr.udp.length;
        hdr.ipv4.identification = 0;
        hdr.ipv4.flags = 2;  // not to be fragmented
        hdr.ipv4.tos = 0;
        hdr.ipv4.ttl = 64;
        hdr.bth.solicited = 0;
        hdr.bth.migration = 0;
        hdr.bth.reserved = 0;
        hdr.bth.acknowledge = 0;
        hdr.bth.reserved_too = 0;
    }
}

control RoceSender(inout headers_t hdr, inout switchml_metadata_t meta, inout standard_metadata_t standard) {
    Ends() ends;
    Numbering() numbering;
    Framing() framing;
    Icrc() icrc;
    counter(MAX_JOBS * MAX_WORKERS, CounterType.packets) sent;  // copies of broadcasts, by job and link

    apply {
        if (standard.egress_rid != 0) {
            meta.next_link = (worker_t)(standard.egress_rid - 1);
            hdr.switchml.worker = meta.next_link;
            sent.count((bit<32>)hdr.switchml.job * MAX_WORKERS + (bit<32>)meta.next_link);
        }
        bit<32> pair = queue_pair_of(meta.next_link, meta.base, meta.base_slot);
        ends.apply(hdr, meta, standard, pair);
        bool again = meta.end_is_switch == 1 && standard.egress_rid == 0 && meta.operation == operation_t.READ;
        bool alone = !hdr.vector.isValid() || again || meta.message == 1;  // as a message
        numbering.apply(hdr, meta, standard, pair, alone);
        framing.apply(hdr, meta, alone);
        icrc.apply(hdr, hdr.icrc.value);
        if (hdr.vector.isValid()) {
            hdr.switchml.setInvalid();  // what it says is in the headers of RoCE, or follows from the queue pair
        }
    }
}

#endif
