// The invariant CRC of a RoCEv2 packet (InfiniBand Architecture Specification, annex A17.3.3): Ethernet's CRC-32 over eight bytes of ones,
// and over everything from the IPv4 header on, where whatever may change on the way counts as ones. It is sent lowest byte first.
// A program includes this behind its headers_t.
#ifndef ICRC_P4
#define ICRC_P4
#include "roce.p4"

#define ICRC_START 64w0xffffffffffffffff, hdr.ipv4.version, hdr.ipv4.ihl, 8w0xff, hdr.ipv4.length, hdr.ipv4.identification, \
                   hdr.ipv4.flags, hdr.ipv4.fragment, 8w0xff, hdr.ipv4.protocol, 16w0xffff, hdr.ipv4.src, hdr.ipv4.dst, \
                   hdr.udp.src, hdr.udp.dst, hdr.udp.length, 16w0xffff, \
                   hdr.bth.opcode, hdr.bth.solicited, hdr.bth.migration, hdr.bth.pad, hdr.bth.version, hdr.bth.partition, 8w0xff, \
                   hdr.bth.queue_pair, hdr.bth.acknowledge, hdr.bth.reserved_too, hdr.bth.psn
#define ICRC_RETH , hdr.reth.address, hdr.reth.key, hdr.reth.length
#define ICRC_IMMEDIATE , hdr.immediate.again, hdr.immediate.turn, \
                       hdr.immediate.exponent0, hdr.immediate.exponent1, hdr.immediate.exponent2, hdr.immediate.exponent3
#define ICRC_SWITCHML , hdr.switchml.job, hdr.switchml.worker, hdr.switchml.kind, hdr.switchml.version, hdr.switchml.slot, \
                      hdr.switchml.exponent, hdr.switchml.mark, hdr.switchml.epoch, hdr.switchml.chunk
#define LANE(j) , hdr.vector.v##j

control Icrc(in headers_t hdr, out bit<32> value) {
    apply {
        bit<32> crc = 0;
        if (hdr.vector.isValid()) {
            if (hdr.reth.isValid() && hdr.immediate.isValid()) {
                hash(crc, HashAlgorithm.crc32, 32w0, { ICRC_START ICRC_RETH ICRC_IMMEDIATE LANES(LANE) }, 64w0x100000000);
            } else if (hdr.reth.isValid()) {
                hash(crc, HashAlgorithm.crc32, 32w0, { ICRC_START ICRC_RETH LANES(LANE) }, 64w0x100000000);
            } else if (hdr.immediate.isValid()) {
                hash(crc, HashAlgorithm.crc32, 32w0, { ICRC_START ICRC_IMMEDIATE LANES(LANE) }, 64w0x100000000);
            } else {
                hash(crc, HashAlgorithm.crc32, 32w0, { ICRC_START LANES(LANE) }, 64w0x100000000);
            }
        } else if (hdr.tag.isValid()) {
            hash(crc, HashAlgorithm.crc32, 32w0,
                 { ICRC_START ICRC_RETH ICRC_IMMEDIATE ICRC_SWITCHML, hdr.tag.value }, 64w0x100000000);
        } else if (hdr.status.isValid()) {
            hash(crc, HashAlgorithm.crc32, 32w0,
                 { ICRC_START ICRC_RETH ICRC_IMMEDIATE ICRC_SWITCHML, hdr.status.seen }, 64w0x100000000);
        } else {
            hash(crc, HashAlgorithm.crc32, 32w0,
                 { ICRC_START ICRC_RETH ICRC_IMMEDIATE ICRC_SWITCHML, hdr.connect.reserved, hdr.connect.queue_pair,
                   hdr.connect.reserved_too, hdr.connect.psn, hdr.connect.key, hdr.connect.address }, 64w0x100000000);
        }
        value = crc[7:0] ++ crc[15:8] ++ crc[23:16] ++ crc[31:24];
    }
}
#undef LANE

#endif
