// Explicit congestion notification (RFC 3168): a packet whose ends understand marks, and that has a deep queue before it, gets one.
// An emulated link's queue is in the kernel, where no program sees it. So its depth is computed from the link's rate and what was
// sent, as a phantom queue (Alizadeh et al., NSDI '12). The chance of a mark rises with the depth (as in DCQCN, SIGCOMM '15,
// figure 5). Settable while packets flow, by register_write:
//   rate[port]     bytes in a microsecond that the link carries, times 2^16; 0: no packet is marked, and no depth known
//   shallow[port]  bytes of the queue up to which none is marked
//   deep[port]     from which on all are
//   slope[port]    the chance for each byte more than `shallow`, times 2^32
// A program includes this behind its headers_t, which has an `ipv4`.
#ifndef ECN_P4
#define ECN_P4
#include "sizes.p4"

const bit<2> ECN_NOT_CAPABLE = 0;
const bit<2> ECN_MARKED = 3;
const bit<32> PHYSICAL_BYTES = 24;  // preamble, FCS and gap

control Ecn(inout headers_t hdr, in standard_metadata_t standard) {
    register<bit<32>>(MAX_PORTS) rate;
    register<bit<32>>(MAX_PORTS) shallow;
    register<bit<32>>(MAX_PORTS) deep;
    register<bit<32>>(MAX_PORTS) slope;
    register<bit<32>>(MAX_PORTS) depth;  // bytes, at
    register<bit<48>>(MAX_PORTS) at;     // microseconds
    counter(MAX_PORTS, CounterType.packets) marked;

    apply {
        bit<32> port = (bit<32>)standard.egress_port;
        bit<32> speed = 0;
        if (port < MAX_PORTS) {
            rate.read(speed, port);
        }
        if (speed != 0) {
            bit<32> waiting;
            bit<48> before;
            depth.read(waiting, port);
            at.read(before, port);
            bit<48> now = standard.egress_global_timestamp;
            bit<64> sent = ((bit<64>)(now - before) * (bit<64>)speed) >> 16;
            if (now - before >= 1 << 24 || sent >= (bit<64>)waiting) {
                waiting = 0;
            } else {
                waiting = waiting - (bit<32>)sent;
            }
            depth.write(port, waiting + standard.packet_length + PHYSICAL_BYTES);
            at.write(port, now);

            bit<2> mark = hdr.ipv4.tos[1:0];
            if (hdr.ipv4.isValid() && mark != ECN_NOT_CAPABLE && mark != ECN_MARKED) {
                bit<32> none;
                bit<32> all;
                shallow.read(none, port);
                deep.read(all, port);
                if (waiting > none) {
                    bit<32> chance;
                    bit<32> draw;
                    slope.read(chance, port);
                    random<bit<32>>(draw, 0, 0xffffffff);
                    if (waiting >= all || (bit<64>)draw < (bit<64>)(waiting - none) * (bit<64>)chance) {
                        // the checksum's one's complement changes by as much as the word with the mark (RFC 1624)
                        bit<32> sum = (bit<32>)(~hdr.ipv4.checksum) + (bit<32>)(ECN_MARKED - mark);
                        hdr.ipv4.checksum = ~(sum[15:0] + (bit<16>)sum[16:16]);
                        hdr.ipv4.tos = hdr.ipv4.tos | (bit<8>)ECN_MARKED;
                        marked.count(port);
                    }
                }
            }
        }
    }
}

#endif
