// Ethernet / IPv4 / UDP / SwitchML / vector. Whatever else comes is forwarded as far as it was understood.
#ifndef SWITCHML_PARSER_P4
#define SWITCHML_PARSER_P4
#include "packet.p4"
#include "metadata.p4"

parser SwitchMLParser(packet_in packet, out headers_t hdr, inout switchml_metadata_t meta, inout standard_metadata_t standard) {
#define PROTOCOLS PROTOCOL_STATE(UDP_PORT_SWITCHML, parse_switchml)
#include "../udp_states.p4"
#include "states.p4"
}

control SwitchMLDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.arp);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.options);
        packet.emit(hdr.udp);
        packet.emit(hdr.switchml);
        packet.emit(hdr.status);
        packet.emit(hdr.tag);
        packet.emit(hdr.vector);
        packet.emit(hdr.part);
    }
}

// Only what is answered is checked and rewritten: forwarded packets keep the bytes they came with.
control SwitchMLVerify(inout headers_t hdr, inout switchml_metadata_t meta) {
    apply {
        verify_checksum(hdr.switchml.isValid(), IPV4_CHECKED, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control SwitchMLCompute(inout headers_t hdr, inout switchml_metadata_t meta) {
    apply {
        update_checksum(hdr.switchml.isValid(), IPV4_CHECKED, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

#endif
