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

control RoceSender(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    Icrc() icrc;
    register<bit<32>>(QUEUE_PAIRS) remote;        // the worker's own end: its queue pair, plus 2^24; 0: not known
    register<key_t>(QUEUE_PAIRS) region;            // of its memory
    register<address_t>(QUEUE_PAIRS) address;     // in it: the results of one set, of the other, and what is no vector
    register<psn_t>(QUEUE_PAIRS) next_psn;
    register<psn_t>(2 * QUEUE_PAIRS) first_psn;   // of the message that was begun last, in each set
    counter(MAX_JOBS * MAX_WORKERS, CounterType.packets) sent;  // copies of broadcasts, by job and link
    counter(1, CounterType.packets) unconnected;  // results for a worker whose end is not known
    bit<1> is_switch;
    worker_t number;

    action to_worker(mac_t mac, ip4_t ip, udp_port_t port) {
        hdr.ethernet.dst = mac;
        hdr.ipv4.dst = ip;
        hdr.udp.dst = port;
    }

    // `there`: of this switch, as the other one counts
    action to_switch(mac_t mac, ip4_t ip, worker_t there) {
        hdr.ethernet.dst = mac;
        hdr.ipv4.dst = ip;
        hdr.udp.dst = UDP_PORT_ROCE;
        is_switch = 1;
        number = there;
    }

    action to_nobody() {
        mark_to_drop(standard);
    }

    table ends {
        key = {
            hdr.switchml.job : exact;
            meta.next_link   : exact;
        }
        actions = { to_worker; to_switch; to_nobody; }
        size = MAX_JOBS * MAX_WORKERS;
        default_action = to_nobody();
    }

    apply {
        is_switch = 0;
        number = 0;
        if (standard.egress_rid != 0) {
            meta.next_link = (worker_t)(standard.egress_rid - 1);
            hdr.switchml.worker = meta.next_link;
            sent.count((bit<32>)hdr.switchml.job * MAX_WORKERS + (bit<32>)meta.next_link);
        }
        bit<32> pair = queue_pair_of(meta.next_link, meta.base, meta.base_slot);
        bit<32> known;
        remote.read(known, pair);
        if (hdr.connect.isValid()) {
            if (known == 0) {
                next_psn.write(pair, hdr.connect.psn);
            }
            remote.write(pair, 8w1 ++ hdr.connect.queue_pair);
            region.write(pair, hdr.connect.key);
            address.write(pair, hdr.connect.address);
            mark_to_drop(standard);
        } else {
            ends.apply();
            if (is_switch == 1) {
                known = 8w1 ++ 3w0 ++ (bit<5>)(hdr.switchml.job + 1) ++ (bit<5>)number ++ (bit<11>)meta.base_slot;
            }
            if (known == 0) {
                unconnected.count(0);
                mark_to_drop(standard);
            } else {
                psn_t psn;
                slot_t i = hdr.switchml.slot - meta.base_slot;
                bit<32> set = 2 * pair + (bit<32>)hdr.switchml.version;
                bool whole = hdr.vector.isValid();
                bool again = is_switch == 1 && standard.egress_rid == 0 && meta.operation == operation_t.READ;
                bool alone = !whole || again || meta.message == 1;  // as a message
                if (alone || i == 0) {
                    next_psn.read(psn, pair);
                    if (!alone) {
                        first_psn.write(set, psn);
                        next_psn.write(pair, psn + (psn_t)meta.message);
                    } else {
                        next_psn.write(pair, psn + 1);
                    }
                    hdr.reth.setValid();
                    if (is_switch == 1) {
                        hdr.reth.address = hdr.switchml.epoch ++ hdr.switchml.chunk;
                        hdr.reth.key = 15w0 ++ hdr.switchml.version[0:0] ++ hdr.switchml.slot;
                    } else {
                        bit<64> begin;
                        bit<64> set_bytes = (bit<64>)meta.message * (bit<64>)BYTES_VECTOR;
                        address.read(begin, pair);
                        region.read(hdr.reth.key, pair);
                        if (!whole) {
                            begin = begin + 2 * set_bytes;
                        } else if (hdr.switchml.version == 1) {
                            begin = begin + set_bytes;
                        }
                        hdr.reth.address = begin;
                    }
                } else {
                    first_psn.read(psn, set);
                    psn = psn + (psn_t)i;
                    hdr.reth.setInvalid();
                }
                bit<16> payload = BYTES_VECTOR;
                bit<16> around = BYTES_UDP + BYTES_BTH + BYTES_ICRC;
                if (!whole) {
                    payload = BYTES_SWITCHML + BYTES_TAG;  // as long as a status
                }
                if (alone) {
                    hdr.bth.opcode = opcode_t.UC_WRITE_ONLY_IMMEDIATE;
                    hdr.reth.length = (bit<32>)payload;
                    around = around + BYTES_RETH + BYTES_IMMEDIATE;
                } else if (i == 0) {
                    hdr.bth.opcode = opcode_t.UC_WRITE_FIRST;
                    hdr.reth.length = (bit<32>)meta.message * (bit<32>)BYTES_VECTOR;
                    around = around + BYTES_RETH;
                } else if (i + 1 == meta.message) {
                    hdr.bth.opcode = opcode_t.UC_WRITE_LAST_IMMEDIATE;
                    around = around + BYTES_IMMEDIATE;
                } else {
                    hdr.bth.opcode = opcode_t.UC_WRITE_MIDDLE;
                }
                if (!alone && i + 1 != meta.message) {
                    hdr.immediate.setInvalid();
                } else {
                    if (!hdr.immediate.isValid()) {
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
                hdr.udp.length = around + payload;
                hdr.udp.checksum = 0;
                hdr.ipv4.length = BYTES_IPV4 + hdr.udp.length;
                hdr.ipv4.identification = 0;
                hdr.ipv4.flags = 2;  // not to be fragmented
                hdr.ipv4.tos = 0;
                hdr.ipv4.ttl = 64;
                hdr.bth.solicited = 0;
                hdr.bth.migration = 0;
                hdr.bth.reserved = 0;
                hdr.bth.queue_pair = known[23:0];
                hdr.bth.acknowledge = 0;
                hdr.bth.reserved_too = 0;
                hdr.bth.psn = psn;
                icrc.apply(hdr, hdr.icrc.value);
            }
        }
        if (hdr.vector.isValid()) {
            hdr.switchml.setInvalid();  // what it says is in the headers of RoCE, or follows from the queue pair
        }
    }
}

#endif
