// Where a queue pair leads: to the end that a worker has sent, or to another switch's, which follows from the number there.
#ifndef ROCE_ENDS_P4
#define ROCE_ENDS_P4
#include "headers.p4"
#include "metadata.p4"
#include "roce_receiver.p4"

control Ends(inout headers_t hdr, inout switchml_metadata_t meta, inout standard_metadata_t standard, in bit<32> pair) {
    register<bit<32>>(QUEUE_PAIRS) remote;     // the worker's queue pair, plus 2^24; 0: not known
    register<key_t>(QUEUE_PAIRS) region;       // the key of its memory
    register<address_t>(QUEUE_PAIRS) address;  // in it: the results of one set, of the other, and what is no vector
    counter(1, CounterType.packets) unconnected;  // results for a worker whose end is not known
    bit<1> leads;
    worker_t number;

    action to_worker(mac_t mac, ip4_t ip, udp_port_t port) {
        hdr.ethernet.dst = mac;
        hdr.ipv4.dst = ip;
        hdr.udp.dst = port;
        leads = 1;
    }

    // `there`: of this switch, as the other one counts
    action to_switch(mac_t mac, ip4_t ip, worker_t there) {
        hdr.ethernet.dst = mac;
        hdr.ipv4.dst = ip;
        hdr.udp.dst = UDP_PORT_ROCE;
        leads = 1;
        meta.end_is_switch = 1;
        number = there;
    }

    table ends {
        key = {
            hdr.switchml.job : exact;
            meta.next_link   : exact;
        }
        actions = { to_worker; to_switch; NoAction; }
        size = MAX_JOBS * MAX_WORKERS;
        default_action = NoAction();
    }

    apply {
        bit<32> known;
        remote.read(known, pair);
        meta.end_is_switch = 0;
        meta.end_is_new = 0;
        leads = 0;
        number = 0;
        if (hdr.connect.isValid()) {
            if (known == 0) {
                meta.end_is_new = 1;
            }
            remote.write(pair, 8w1 ++ hdr.connect.queue_pair);
            region.write(pair, hdr.connect.key);
            address.write(pair, hdr.connect.address);
            mark_to_drop(standard);
        } else {
            ends.apply();
            hdr.reth.setValid();
            if (meta.end_is_switch == 1) {
                known = 8w1 ++ 3w0 ++ (bit<5>)(hdr.switchml.job + 1) ++ (bit<5>)number ++ (bit<11>)meta.base_slot;
                hdr.reth.address = hdr.switchml.epoch ++ hdr.switchml.chunk;
                hdr.reth.key = 15w0 ++ hdr.switchml.version[0:0] ++ hdr.switchml.slot;
            } else {
                bit<64> set_bytes = (bit<64>)meta.message * (bit<64>)BYTES_VECTOR;
                address.read(hdr.reth.address, pair);
                region.read(hdr.reth.key, pair);
                if (!hdr.vector.isValid()) {
                    hdr.reth.address = hdr.reth.address + 2 * set_bytes;
                } else if (hdr.switchml.version == 1) {
                    hdr.reth.address = hdr.reth.address + set_bytes;
                }
            }
            hdr.bth.queue_pair = known[23:0];
            if (leads == 0 || known == 0) {
                unconnected.count(0);
                mark_to_drop(standard);
            }
        }
    }
}

#endif
