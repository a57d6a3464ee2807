// Ethernet / IPv4 / UDP / ATP / vector. Whatever else comes is forwarded as far as it was understood.
#ifndef ATP_PARSER_P4
#define ATP_PARSER_P4
#include "packet.p4"
#include "metadata.p4"

parser AtpParser(packet_in packet, out headers_t hdr, inout atp_metadata_t meta, inout standard_metadata_t standard) {
#define PROTOCOLS PROTOCOL_STATE(UDP_PORT_ATP, parse_atp)
#include "../udp_states.p4"
#include "states.p4"
}

control AtpDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.arp);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.options);
        packet.emit(hdr.udp);
        packet.emit(hdr.atp);
        packet.emit(hdr.tag);
        packet.emit(hdr.largest);
        packet.emit(hdr.vector);
    }
}

// Only ATP's packets are checked and rewritten: other ones keep the bytes they came with.
control AtpVerify(inout headers_t hdr, inout atp_metadata_t meta) {
    apply {
        verify_checksum(hdr.atp.isValid(), IPV4_CHECKED, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control AtpCompute(inout headers_t hdr, inout atp_metadata_t meta) {
    apply {
        update_checksum(hdr.atp.isValid(), IPV4_CHECKED, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

#endif
